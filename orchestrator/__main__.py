"""`python -P -m orchestrator`: the same as the console script, where that cannot be found."""

from _orchestrate import main

raise SystemExit(main())
