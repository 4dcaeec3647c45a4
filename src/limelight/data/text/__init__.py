"""Text: files, vocabularies, labelled texts and sentence pairs."""
