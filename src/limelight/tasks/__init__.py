"""Tasks: loss, metrics, predictions, records and figures of each kind of problem."""
