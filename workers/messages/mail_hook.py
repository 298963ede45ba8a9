"""The program that an agent CLI runs after a tool call and at the end of a turn: `after|stop AGENT LOG`."""

import sys

if __name__ == "__main__":
    sys.path.insert(0, __file__.rpartition("/workers/")[0])
    # Not here: what is in the file of a program is compiled at each start.
    from workers.messages.hook import main

    main(sys.argv[1:])
