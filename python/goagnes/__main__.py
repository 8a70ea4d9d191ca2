"""``python -m goagnes``: the same as the command ``goagnes``."""

from goagnes._program import main

main()
