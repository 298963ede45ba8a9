"""What a worker is asked to do, and what counts as an answer. Pure: text in, values out."""
