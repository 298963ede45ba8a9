"""A receiver in a process of its own: it records the effect of each message, then acknowledges it.

`python mail_receiver.py LOG EFFECTS [FAULT]`; says `ready`, then `picked ID`, `handled ID` and `acked ID`, a
line each. Faults: `die-before` and `die-after` handling the first message, `busy` for 6 s before it.
"""

import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from workers.messages.delivery import Reading, receipt
from workers.messages.own_log import OwnLog
from workers.messages.record import participant_of

BUSY = 6.0


def main(path, effects, fault=""):
    log = OwnLog(path, participant_of(Path(path).name))
    reading = Reading(str(Path(path).parent), log.participant)
    say("ready")
    while True:
        reading.catch_up()
        for message in reading.book.new_for(log.participant):
            fault = handle(log, message.record, Path(effects), fault)
        time.sleep(0.01)


def handle(log, record, effects, fault):
    say(f"picked {record.id}")
    if fault == "die-before":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "busy":
        time.sleep(BUSY)
    done = effects.read_text().splitlines() if effects.exists() else []
    if record.id not in done:  # an effect is recorded with the id of its message
        with effects.open("a") as file:
            file.write(f"{record.id}\n")
    say(f"handled {record.id}")
    if fault == "die-after":
        os.kill(os.getpid(), signal.SIGKILL)
    with log.held() as held:
        held.append(receipt(record, "handled"))
    say(f"acked {record.id}")
    return ""


def say(line):
    print(line, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
