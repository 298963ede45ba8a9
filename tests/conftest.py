"""What holds for every test."""

import signal

# A suite that is started in the background may have inherited "ignore Ctrl-C"; what tests start would too.
signal.signal(signal.SIGINT, signal.default_int_handler)
