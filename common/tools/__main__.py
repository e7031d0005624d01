"""python3 common/tools NAME [options]: see command.py. Read by every Python 3, to say that it is too old."""

import os
import signal
import sys

if sys.version_info < (3, 10):
    here = ".".join(map(str, sys.version_info[:2]))
    sys.exit(sys.stderr.write("common/tools: Python 3.10 or newer is needed as python3, and this is %s\n" % here) and 2)

import command

if __name__ == "__main__":
    # As Ctrl-C: the processes that this one has started end with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    code = command.main(sys.argv[1:])
    if code == command.INTERRUPTED:  # perhaps in the middle of a compilation, whose helpers Python would wait for
        sys.stdout.flush()
        os._exit(code)
    sys.exit(code)
