"""At a site: every message is handed to the worker beside the node, which `unalike join` is.

Flower starts a new process for each message, so this file imports nothing that takes long.
"""

import socket

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.query("unalike")
def relay(msg: Message, context: Context) -> Message:
    """The worker's bytes in return for the centre's."""
    raw = msg.content["message"]["raw"].numpy().tobytes()
    place = str(context.node_config["worker"]).replace("{run}", str(context.run_config["run"]))
    with socket.socket(socket.AF_UNIX) as worker:
        worker.connect(place)
        worker.sendall(len(raw).to_bytes(8, "big") + raw)
        with worker.makefile("rb") as stream:
            size = int.from_bytes(stream.read(8), "big")
            answer = stream.read(size)
    back = Array(np.frombuffer(answer, np.uint8))
    return Message(RecordDict({"message": ArrayRecord({"raw": back})}), reply_to=msg)
