"""The program of a worker's MCP server, which its agent CLI starts."""

import sys

if __name__ == "__main__":
    sys.path.insert(0, __file__.rpartition("/workers/")[0])
    # Not here: what is in the file of a program is compiled at each start.
    from workers.messages.server import main

    main(sys.argv[1:])
