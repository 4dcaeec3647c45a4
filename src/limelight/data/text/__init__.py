"""Text data: files, vocabularies, labelled texts and sentence pairs."""
