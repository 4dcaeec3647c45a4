"""Images: files, published data sets and augmentation."""
