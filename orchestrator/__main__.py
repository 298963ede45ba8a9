"""`python -P -m orchestrator`: the same as the console script, where that is not to be found."""

from orchestrator.cli.main import main

raise SystemExit(main())
