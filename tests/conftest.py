"""What holds for every test."""

import signal

# A suite that is started in the background has inherited deafness for these; what the tests start would too.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
