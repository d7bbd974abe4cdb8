"""What a call has beside its arguments: its context, its questions, its cancellation, its line in the log."""
