"""What a worker is asked, and what counts as an answer. Pure: text in, values out."""
