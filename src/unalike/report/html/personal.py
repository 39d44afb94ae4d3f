"""The pictures of personal models: between shared and own, for newcomers, on others' data."""

from unalike.metrics.catalogue import metric as looked_up
from unalike.report import personal, plots
from unalike.report.html.figures import Figure, figure
from unalike.report.records import Study

MOST = 4  # squares of one kind for a partition


def latent_figures(study: Study, partition: str, number: int) -> list[Figure]:
    """Clients' data in the latent space by which they are weighted."""
    found = [
        figure(
            f"latents-{number}-{i}",
            f"Latent variables: {method}",
            f"{partition}, first seed. Each line is the histogram of one client's training "
            "examples in the encoder's latent space; the dotted line is what the encoder was "
            "trained to produce for all of them. Only a simulation sees this; a server hears "
            "only the distances.",
            lambda got=got: plots.latent_plot(
                *(got[k] for k in ("edges", "shares", "d", "clients"))
            ),  # type: ignore[misc]
        )
        for i, (method, got) in enumerate(personal.squares(study, partition, "latents")[:MOST])
    ]
    return [f for f in found if f is not None]


def personal_figures(study: Study, partition: str, number: int) -> list[Figure]:
    """Those that there is anything to draw of."""
    metric, among = study.metric, study.methods
    named = looked_up(metric).title
    line, steps = personal.line(study, partition), personal.steps(study, partition)
    found = [
        figure(
            f"line-{number}",
            "Between the shared and the clients' own models",
            f"{named[0].upper()}{named[1:]} on clients' own test data at points of the line from "
            "the shared model to each client's own; bands span seeds.",
            lambda: plots.line_plot(line, metric, among),
        ),
        figure(
            f"steps-{number}",
            "New clients after local steps",
            f"{named[0].upper()}{named[1:]} of clients that never trained, after some steps of "
            "the method's own on their own data; bands span seeds.",
            lambda: plots.steps_plot(steps, metric, among),
        ),
    ]
    for i, (method, got) in enumerate(personal.squares(study, partition, "cross")[:MOST]):
        found.append(
            figure(
                f"cross-{number}-{i}",
                f"Who benefits from whom: {method}",
                f"{partition}, first seed, last round. Each row is a client's own model, each "
                "column a client's test data. Only a simulation can measure it: in a federation "
                "neither leaves its client.",
                lambda got=got: plots.cross_plot(got["values"], got["clients"], got["metric"]),  # type: ignore[misc]
                square=True,
            )
        )
    for i, (method, got) in enumerate(personal.squares(study, partition, "landscape")[:MOST]):
        found.append(
            figure(
                f"landscape-{number}-{i}",
                f"Loss around the shared model: {method}",
                f"{partition}, first seed, last round. Along two random directions, scaled "
                "filter by filter to the model's own length.",
                lambda got=got: plots.landscape_plot(got["loss"], got["at"]),  # type: ignore[misc]
                square=True,
            )
        )
    return [f for f in found if f is not None]
