"""Image data: files, published data sets and augmentation."""
