"""Where the default of every method's every setting comes from: text, authors' code, or us.

"text" is the paper or thesis that the method's page names. A default that neither states is called
our choice, with the reason; tests keep this table complete.
"""

_NO_NOISE = "our choice: as published, without noise"
_PER_DATASET = "the authors choose one per dataset"
_BY_EXAMPLES = "text; the released code of AAggFF, which has it as a baseline, leaves it out"
_BUDGET = "our choice, to be set: what is bearable depends on the data"

SOURCES: dict[str, dict[str, str]] = {
    "fedprox": {
        "mu": "the released commands of SuPerFed and FLTK's code, which have it as a baseline; the "
        "text tunes it per dataset",
        "adaptive": "our choice: a fixed mu is the same objective in every round",
        "step": "text, section 5.3.2",
        "patience": "text, section 5.3.2",
    },
    "scaffold": {
        "server_lr": "text: the experiments' global step size",
        "averaging": "text, Algorithm 1, line 16",
    },
    "fednova": {
        "effective": "text; step counts are what the authors' code takes with a proximal term",
        "server_lr": "text: the whole step, as FedAvg's",
    },
    "fedavgm": {
        "lr": "our choice: the whole step, as FedAvg's",
        "momentum": "our choice: the usual one of SGD; the text sweeps it",
    },
    "fedadam": {
        "lr": "our choice: a tenth of FedAvg's step; the text tunes it per dataset",
        "tau": "text: the value of the experiments",
        "b1": "text: the value of the experiments",
        "b2": "text: the value of the experiments",
    },
    "fedyogi": {
        "lr": "our choice: a tenth of FedAvg's step; the text tunes it per dataset",
        "tau": "text: the value of the experiments",
        "b1": "text: the value of the experiments",
        "b2": "text: the value of the experiments",
    },
    "fedadagrad": {
        "lr": "our choice: a tenth of FedAvg's step; the text tunes it per dataset",
        "tau": "text: the value of the experiments",
        "b1": "text: the value of the experiments",
    },
    "fedep": {
        "mode": "our choice: the tails of the bare formula leave the most uniform client below 1 %",
        "direction": "text: introduction, formula, listing and conclusion, against section 6.3",
        "rho": "text",
        "epsilon": "our choice: the listing's own epsilon on the nodes",
        "survey_epsilon": _NO_NOISE,
        "label_set": "text: the formula's; the listing takes the aggregator's own",
        "bic": "our choice: the textbook's count in the formula, the text's in the listing",
        "renormalise": "our choice: else the weights of those that answer sum to less than one",
        "variance_floor": "our choice: what the listing adds to every variance; the text has none",
    },
    "feddisco": {
        "a": "authors' code",
        "b": "authors' code",
        "discrepancy": "authors' code",
        "normalise": "authors' code",
        "reference": "authors' code: uniform unless the test data are not",
        "on_all_zero": "our choice: the authors' code ends with an error there",
        "survey_epsilon": _NO_NOISE,
    },
    "latent_disco": {
        "a": "our choice: the middle one of the text's 0.1, 0.5 and 0.9",
        "b": "authors' code; the text has none",
        "refresh": "authors' code: it made the published results",
        "every": "our choice: as often as possible; the text has no such mode",
        "warmup": "our choice: as short as possible; the text has no such mode",
        "encoder": "our choice: the first stage is run unless there is one",
        "embed": "authors' code",
        "w1": "our choice: no chance in it, and about 0.001 from the authors' million draws",
        "draws": "authors' code",
        "draws_seed": "our choice: any seed will do",
        "normalise": "authors' code",
        "on_all_zero": "our choice: the authors' code drops such a run, which favours the others",
    },
    "aaggff_s": {
        "cdf": f"text: best on Berka; {_PER_DATASET}",
        "low": "text: C1 = 0",
        "high": "text: C2 = 1/K",
    },
    "aaggff_d": {
        "cdf": f"our choice: as for AAggFF-S; {_PER_DATASET}",
    },
    "afl": {
        "rate": "the released commands of AAggFF, which has it as a baseline",
    },
    "qfedavg": {
        "q": "our choice: the middle one of 0.1, 1 and 5, which AAggFF's authors tune over",
        "by_examples": _BY_EXAMPLES,
        "lipschitz": "text and authors' code: one over the learning rate",
    },
    "term": {
        "tilt": "our choice: the middle one of 0.1, 1 and 10, which AAggFF's authors tune over",
        "by_examples": _BY_EXAMPLES,
    },
    "propfair": {
        "baseline": "our choice: the middle one of 2, 3 and 5, which AAggFF's authors tune over",
        "floor": "the released code of AAggFF, which has it as a baseline",
    },
    "propfair_loss": {
        "baseline": "our choice: the middle one of 2, 3 and 5, which AAggFF's authors tune over",
        "floor": "the released code of AAggFF, which has it as a baseline",
    },
    "fedmgda": {
        "epsilon": "our choice: the least of 0.1, 0.5 and 1, which AAggFF's authors tune over",
        "lr": "the released code of AAggFF, which has it as a baseline: its first server rate",
    },
    "lg_fedavg": {
        "shared": "text; the authors' code shares the convolutions on CIFAR-10",
        "weights": "text; the authors' code takes the plain mean",
        "step": "authors' code, which is back-propagation; the text lists one update after another",
        "warm_start": "text; the authors' code begins with a model of FedAvg",
    },
    "superfed_mm": {
        "start": "authors' commands for 100 clients; the text gives none per dataset",
        "mu": "text and authors' commands",
        "nu": "authors' commands; the text gives none per dataset",
        "at": "our choice: fixed before; the authors take each client's best on its test rows",
    },
    "phase_shift": {
        "phases": "text: the combined run has two; fewer are none",
        "optimizer": "our choice, as FLTK's code does; the text is silent",
        "eval_model": "our choice: the model that a user would get",
    },
    "fedaug": {
        "target": "text: the EMD of the combined run",
        "solver": "our choice: the published closed form misses the target on some counts",
        "rotation": "text",
        "noise": "our choice: the text names noise without its strength",
        "flip": "text",
        "perspective": "our choice: the text names it without its strength",
        "jitter": "our choice: the text names it without its strength",
        "hue": "our choice: as strong as the jitter; the text names none",
        "grey": "our choice: the text names it without its chance",
        "chance": "our choice: the text gives no chances",
        "perspective_chance": "our choice: the text gives no chances",
        "jitter_chance": "our choice: the text gives no chances",
    },
    "fedevg": {
        "per_class": "text: for all experiments",
        "chain": "text: one step suffices",
        "chain_step": "text",
        "chain_noise": "text",
        "synthetic_ce": "text",
        "step_first": "text: for all settings",
        "step_last": "text: for all settings",
        "noise": "text; the authors' code has 0.0001",
        "clip_gradient": "authors' code; without it the first step diverges",
        "clip_pixels": "authors' code; without it the first step diverges",
        "lr": "authors' code",
        "judge_epochs": "our choice: the authors' code takes one epoch, the text names none",
    },
    "trimmed_mean": {
        "trim": _BUDGET,
    },
    "krum": {
        "attackers": "our choice, to be set: the least that needs a defence",
        "select": "text: Krum itself",
    },
    "norm_clip": {
        "bound": "our choice: a fixed one would have to be known before",
        "norm": _BUDGET,
    },
    "dp": {
        "clip": _BUDGET,
        "noise_multiplier": "our choice, to be set: noise as large as one client's update",
        "delta": "our choice: customary; keep it far below one over the clients",
        "adjacency": "our choice: what cohorts of a fixed size are analysed for",
    },
    "local_dp": {
        "clip": _BUDGET,
        "noise_multiplier": "our choice, to be set: noise as large as the update",
        "delta": "our choice: customary; keep it far below one over the clients",
    },
}
