"""Commands of the command line: one module each, with ``run(config) -> exit code``.

Like ``robo_rl.app``, these modules compose objects; no others in the platform import from several packages.
"""
