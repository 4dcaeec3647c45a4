"""The trainer, its settings, checkpoints and run folders. It works with any task, model and data set."""
