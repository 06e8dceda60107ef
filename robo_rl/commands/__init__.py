"""One module a command of the command line, each with ``run(cfg) -> exit code``.

Like ``robo_rl.app`` these compose: they alone, of the platform, import from several rooms.
"""
