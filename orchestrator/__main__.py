"""`python -P -m orchestrator`: the same as the console script, where that cannot be found."""

from orchestrator.cli.main import main

raise SystemExit(main())
