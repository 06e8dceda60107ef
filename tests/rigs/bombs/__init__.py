"""Files of all formats that claim, or expand to, far more than they declare; see :mod:`tests.rigs.bombs.reading`."""
