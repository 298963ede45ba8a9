"""Template files to tickets: front matter, keys, Jinja, fan-outs, and every fault of them."""
