"""Parameters of a strategy, as a vector of real classes has them, in; those of our functions out."""

from __future__ import annotations


def parameters_of(params, mq_all):
    parameters = {}
    if "virtualNodeCnt" in params:
        parameters["virtual_node_count"] = params["virtualNodeCnt"]
    if "consumeridcs" in params:
        parameters["machine_rooms"] = params["consumeridcs"]
    if "messageQueueList" in params:
        indexes = params["messageQueueList"]
        parameters["configured_queues"] = indexes if indexes is None else [mq_all[index] for index in indexes]
    return parameters
