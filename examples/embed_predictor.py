"""Ask the trained cost model what a fused group would cost, as a compiler would.

python examples/embed_predictor.py
"""

import autotune

autotune.calibrate("edge", budget=150, models=["mlp"])  # once; the model stays in the store
predictor = autotune.Predictor.load("edge")

graph = autotune.load_network("mlp")
for first, second in zip(graph.ops, graph.ops[1:], strict=False):
    apart = [predictor.predict(graph.group(op.name)) for op in (first, second)]
    fused = predictor.predict(graph.group([first.name, second.name]))
    cycles = sum(cost.cycles for cost in apart)
    verdict = "fuse" if fused.cycles < cycles else "keep apart"
    print(
        f"{first.kind} + {second.kind}: {cycles:,.0f} cycles apart, {fused.cycles:,.0f} fused "
        f"(90 %: {fused.low_cycles:,.0f} to {fused.high_cycles:,.0f}): {verdict}"
    )
