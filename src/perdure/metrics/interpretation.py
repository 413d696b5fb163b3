"""How to read each metric, and how it differs from its namesakes."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["DIAGNOSIS", "READINGS", "Reading"]


class Reading(NamedTuple):
    """Plain words about a metric: what tells it from its namesakes, and what values mean.

    `good` is said of accuracies only: other scores have no such limit.
    """

    differs: str
    meaning: str
    good: str = ""


DIAGNOSIS = """\
acc.learning  bwt            acc        reading
high          about 0        high       a good continual learner
high          very negative  low        severe forgetting
low           about 0        low        poor learning
high          positive       very high  beneficial transfer"""

READINGS: dict[str, Reading] = {
    "acc": Reading(
        "Printed as accuracy, ACC, AA or AA_K. Every task counts the same; acc.pooled counts "
        "examples, acc.lower all steps, acc.incremental the mean of acc after every task.",
        "It cannot tell forgetting from never having learned: read it beside acc.learning and "
        "bwt. acc = acc.learning + bwt (T-1)/T exactly; the guide prints this without the factor.",
        good="Good above .8 (guide)."),
    "acc.pooled": Reading(
        "acc weighted by test-set size: what tools print that pool all test examples.",
        "Equal to acc where all test sets have the same size; large tasks dominate otherwise."),
    "acc.lower": Reading(
        "Díaz-Rodríguez' A and the M2I/I2M tables' ACC. Faber et al. print the divisor N(N-1)/2 "
        "in eq. 1, which would let accuracy exceed 1; their code divides by N(N+1)/2.",
        "The first task enters T times, the last once: a stream that starts with easy tasks "
        "scores higher (Faber et al., sec. 4.3). Do not compare different task orders by it."),
    "acc.below": Reading(
        "CLEAR prints it as backward transfer, though no difference is taken.",
        "The mean score on older tasks; high does not mean that they improved."),
    "acc.incremental": Reading(
        "iCaRL's average incremental accuracy. PyCIL pools the examples of each step, which is "
        "the same for equal test sets.",
        "Mean over training of acc: earlier steps are easier in class-incremental streams, so it "
        "lies above acc."),
    "acc.learning": Reading(
        "The guide's LA, CLEAR's in-domain accuracy.",
        "How well each task is learned when it comes, whatever is lost later.",
        good="Good above .9 (guide)."),
    "acc.all": Reading(
        "CapyMOA's accuracy_all_avg: tasks not yet learned count too.",
        "Mixes learning, keeping and guessing; compare it only with itself."),
    "bwt": Reading(
        "GEM's backward transfer: the end against the diagonal. bwt.all averages all later steps, "
        "bwt.consecutive is 2/T of it, acc.below is printed under this name too.",
        "About 0 or positive is good; negative is forgetting. Equal to -forgetting.learned."),
    "bwt.all": Reading(
        "Díaz-Rodríguez' and Faber's eq. 2: every step after learning counts, not only the last.",
        "Closer to 0 than bwt when loss comes late, further when it is recovered by the end."),
    "bwt.consecutive": Reading(
        "What the M2I/I2M tables print as BWT, though their eq. 2 says bwt.all. The sum "
        "telescopes: times T/2 it is GEM's bwt.",
        "It shrinks with the number of tasks whatever is forgotten; multiply by T/2."),
    "rem": Reading(
        "1 - |min(bwt.all, 0)|, so that larger is better.",
        "1 is nothing lost on average; gains on one task cancel losses on another."),
    "bwt.positive": Reading(
        "The other half of bwt.all, printed as BWT+.",
        "Above 0 only where older tasks improve on average."),
    "fwt.upper": Reading(
        "A score, not a transfer: no baseline is taken off. fwt.gem takes off the untrained "
        "model's, fwt.next looks at the next task only, fwt.learned is after learning.",
        "Compare it with chance (.1 for ten classes). Undefined in the class-incremental setting: "
        "a model cannot name classes it has not learned."),
    "fwt.gem": Reading(
        "GEM's forward transfer: just before a task is learned, against the untrained model.",
        "Positive: earlier tasks help before the new one is seen. Undefined in the "
        "class-incremental setting, as fwt.upper."),
    "fwt.next": Reading(
        "CLEAR's next-domain accuracy; fwt.gem without the baseline.",
        "Compare it with chance."),
    "fwt.learned": Reading(
        "The guide's FWT: measured after learning, so mostly learning itself, not transfer.",
        "Positive for any model that learns at all."),
    "forgetting.best": Reading(
        "The reference is the best score since learned and before the end. .learned takes the "
        "score when learned, .peak lets the end itself be the best, .any also looks at scores "
        "before the task was learned.",
        "Low is good. Negative where older tasks end above all they had. In class-incremental "
        "streams even a guesser 'forgets': see raf."),
    "forgetting.learned": Reading(
        "De Lange's FORG, exactly -bwt; Avalanche's forgetting.",
        "Low is good, negative is backward transfer. Never above forgetting.best."),
    "forgetting.peak": Reading(
        "The guide's code (its formula is .best), PILOT's and nearly Mammoth's forgetting.",
        "Never negative: improvement counts as 0."),
    "forgetting.any": Reading(
        "RWalk's formula taken literally, as Renate computes it: needs scores on unseen tasks.",
        "Above .best only where a task was known better before it was learned."),
    "forgetting.ratio": Reading(
        "Serrà's rho, named in Díaz-Rodríguez et al.; all tasks, the last included.",
        "0 is as good as joint training, -1 as bad as no training."),
    "memory_stability": Reading(
        "The guide's MS. Not Díaz-Rodríguez' MS, which is model size (ms).",
        "Low is good; it does not say whether scores fell or rose. In squared scores: times "
        "10,000 in percentage points."),
    "intransigence": Reading(
        "Against a model trained on all tasks at once; .single against one task alone. The guide "
        "allows either reading.",
        "0 or below is good; positive: learned worse because of what came before."),
    "intransigence.single": Reading(
        "The reading 'trained from scratch' of the guide's IM.",
        "0 or below is good."),
    "omega.base": Reading(
        "Kemker & Hayes: the first task only, relative to joint training.",
        "1 keeps the first task as well as joint training has it; above 1 is possible."),
    "omega.new": Reading(
        "acc.learning without the first task.", "How well new tasks are learned."),
    "omega.all": Reading(
        "All tasks seen, relative to joint training on the same tasks.",
        "1 is as good as joint training."),
    "raa": Reading(
        "acc with the growing number of classes divided out; equal to acc at the last task of a "
        "class-incremental stream, so look at its curve.",
        "A rising curve accumulates knowledge; a flat one loses as fast as a guesser."),
    "raf": Reading(
        "forgetting.best with the guesser's part divided out; equal to it at the end for tasks of "
        "equal size. Made for class-incremental streams.",
        "A rising curve: forgetting grows beyond what more classes explain."),
    "uraa": Reading(
        "raa before it is scaled to 1.", "How many times better than guessing."),
    "uraf": Reading(
        "raf before it is scaled to 1.", "How many times more forgetful than guessing."),
    "min_acc": Reading(
        "Strictly after a task's last iteration, tasks left behind only. Biased low when many "
        "noisy evaluations compete: read the interval or the bias beside it. The paper's code "
        "redraws its test subset at every step, which biases more than a fixed one.",
        "The worst that was kept; far below acc means a stability gap."),
    "wc_acc": Reading(
        "min_acc with the current task's score added; at a task's end it never exceeds acc on the "
        "same examples.",
        "A floor under the accuracy on all tasks seen, at this iteration."),
    "wf": Reading(
        "wf10, wf100, wfall: the window counts evaluations, not iterations; state the periodicity. "
        "Never negative, and biased high by noise.",
        "wf10 shows sharp drops, wf100 and wfall slow ones. 0 is a score that never falls."),
    "wp": Reading(
        "The mirror image of wf. The paper's routine prunes on a running maximum, right for drops "
        "and wrong for rises: [.9, .1, .8] comes out as -.1 there, .7 here.",
        "How fast something is gained within a window."),
    "current": Reading(
        "The score of the task being learned, at the end of its training.",
        "Plasticity: near its single-task score is good."),
    "lca": Reading(
        "A-GEM's, b = 0 (before the first update) included.",
        "High: new tasks are learned within few batches."),
    "aaa": Reading(
        "Mean over all evaluations, not only task ends as acc.incremental.",
        "What a user sees on average at any time."),
    "gap.depth": Reading(
        "For each switch and older task, against the score at the switch; min_acc is absolute and "
        "over the whole future.",
        "0 is no gap; negative: the score only rose."),
    "gap.area": Reading(
        "Depth times duration: a short deep dip and a long shallow one can be equal.",
        "Score lost times iterations, summed over one new task."),
    "gap.recovery": Reading(
        "The median over dips; those that never come back count as longest, 0 where the score "
        "never fell below 95%.",
        "Few iterations: the dip is transient. Undefined if more than half never recover."),
    "gap.recovered": Reading(
        "The share behind gap.recovery.", "1: every dip came back within the new task."),
    "ms": Reading(
        "Model size efficiency. Not the guide's MS (memory_stability). What a method keeps per "
        "parameter counts; a teacher copy was not counted in the paper's LwF: see ms.copies.",
        "1: the model did not grow."),
    "ms.copies": Reading(
        "As ms, with the copies a method keeps beside the model (K): a teacher, its recorded "
        "outputs, the initial weights. The paper's MS leaves them out.",
        "1: neither model nor copies grew."),
    "sss": Reading(
        "Stored samples when each task starts, against all data by the end.",
        "1: nothing is stored; keeping all of ten equal tasks gives .55."),
    "ce": Reading(
        "One pass over the data against all training operations; evaluation is kept apart. State "
        "epsilon.",
        "1: no more than one pass (times epsilon)."),
    "clscore": Reading(
        "Seven criteria, equal weights unless stated. The paper has two different W2; the one in "
        "its table's caption gives its numbers.",
        "Depends on the weights: report them."),
    "clstability": Reading(
        "Over runs, with the sample SD.", "1: all runs agree."),
}  # fmt: skip
