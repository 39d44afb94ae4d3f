"""What a method or a topology is, as far as another may be unable to live with it.

A method refuses traits, each with its reason, and never another method by name: every method with
the trait is refused, even one written later. The first group is seen in what a method changes
in a draft; the second says what cannot be seen there; the third belongs to topologies.
"""

from enum import StrEnum


class Trait(StrEnum):
    """One fact, in words that follow 'it'."""

    OWN_CLIENT = "trains clients in its own way"
    OWN_SERVER = "has its own server step"
    PULLS = "adds a term to the clients' loss"
    STEPS_ON_SERVER = "replaces the server's step"
    KEEPS_LEAVES = "keeps part of the model on the client"
    SETS_WEIGHTS = "sets the weights of the average"
    WEIGHTS_FOLLOW_LOSSES = "has weights that follow the clients' losses"
    WEIGHTS_CHANGE = "has weights that change from round to round"
    SCALES_WEIGHTS = "changes the weights that another rule gives"
    FILTERS_UPDATES = "changes updates on the server"
    ALTERS_UPLOADS = "changes updates before they are sent"
    SENDS_SOME_ENTRIES = "sends only some entries of an update"
    WRITES_FEW_BITS = "writes the numbers of an update in few bits"
    ALTERS_DOWNLOADS = "compresses what the server sends"
    AUGMENTS = "augments the clients' examples"
    CHOOSES_COHORTS = "decides who answers when"
    BEGINS_WITH_A_STAGE = "begins with its own stage"
    ENDS_WITH_A_STAGE = "ends with its own stage"
    OWN_MODELS = "gives every client its own model"

    FEDAVG_SERVER = "uses FedAvg's server step"
    SPLITS_MODELS = "trains models of which a part is private as well as whole ones"
    WHOLE_MODELS = "trains whole models"
    FEDAVG_OBJECTIVE = "descends on FedAvg's local objective, penalties included"
    OWN_OBJECTIVE = "has its own local objective"
    PULLS_ITSELF = "pulls local models towards the received one"
    STEP_IN_WEIGHTS = "has weights that include a step length"
    SEVERAL_ROUNDS_IN_UPLOAD = "uploads the work of several rounds at once"
    SENDS_NO_MODEL = "sends no model"
    MAKES_EXAMPLES = "makes examples that nobody has"

    MANY_SERVERS = "has several servers"
    EDGE_SERVERS = "has servers that each see some of the clients"
    NO_SERVER = "has no server, so clients receive models and not updates"
    MOVING_SERVER = "passes the role of the server from client to client"
