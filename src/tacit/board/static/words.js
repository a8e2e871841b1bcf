/** Words of the board, explained. */

import { h } from "./dom.js";

/** What curves and figures are: title, the unit of the axis, an explanation. */
export const FIGURES = {
  best: ["Best so far", "the sweep's metric", "The metric of the best of the settings that are done, over their number: each run of one seed counts."],
  loss: ["Loss", "loss in the round", "What a prediction cost before the agent learnt from the sample, as a mean over the agents. Lower is better."],
  average_loss: ["Average loss", "average loss up to the round", "The loss as a mean over all agents and all rounds so far. Lower is better."],
  score: ["Score", "score", "Share of right predictions, or the score of the task. Higher is better."],
  accuracy: ["Accuracy", "share of right predictions", "Share of right predictions. Higher is better."],
  regret: ["Regret", "regret per agent and round", "Average loss minus that of the one model that would have been best for all the data, known only afterwards. Near 0, or below, is good."],
  regret_so_far: ["Regret so far, against mean models", "estimated regret per agent and round, at least", "Average loss so far minus that of the best of four stated models: the mean of the agents' models now, and at the three looks before. Their losses are those on a sample of the data so far; the band is the sample's error (95 %). Regret against the model that would have been best for all data is not lower, but for that error: it takes this curve's place with the results."],
  consensus: ["Disagreement", "consensus distance", "How far the agents' models lie apart: mean squared distance from their mean. 0 means that all have the same model."],
  bits: ["Bits sent", "bits sent by all agents so far", "Numbers that agents send to each other, before a network wraps them up."],
  epsilon: ["Privacy spent", "epsilon", "Bound on what messages tell about one record: its presence changes how likely any message is by a factor of at most e to the epsilon. Smaller is more private."],
};

/** What agents are coloured by: title, explanation. */
export const MEASURES = {
  loss: ["Loss", "what the agent's last prediction cost"],
  disagreement: ["Disagreement", "distance of the agent's model from the mean of all"],
  mass: ["Mass", "share of the whole that an agent holds in push-sum; 1 is even"],
  cluster: ["Cluster", "group that the agent belongs to"],
  presence: ["Presence", "whether the agent took part in the round"],
  privacy: ["Privacy spent", "epsilon of the agent's dearest record up to the round"],
};

/** What links can be. */
export const LINKS = {
  open: "messages arrive",
  late: "the neighbour is behind by some rounds",
  dead: "nothing has arrived for so long that the neighbour is taken as gone",
  refused: "the other side does not let this one in: certificate, job or rules differ",
  quarantined: "the neighbour sent what it must not, and is not believed any more",
};

/** What they are in a simulation, where the channel, the graph and the receiver decide. */
export const RUN_LINKS = {
  open: "what was sent in the round arrived in it",
  late: "what was sent in the round arrives in a later one",
  lost: "what was sent in the round was lost on its way",
  dead: "an end was away in the round, or the link was not there",
  refused: LINKS.refused,
  quarantined: "the receiver leaves this sender out for a while: what it sent lay far from what the others sent",
};

const TERMS = {
  "round": "one step of all agents: predict, learn, release, send, combine",
  "agent, peer": "one learner with its own data; a peer is an agent as a process of its own, over mutual TLS",
  "epsilon": FIGURES.epsilon[2],
  "delta": "chance with which the bound of epsilon may fail",
  "ledger": "book of all that was released, written before anything is sent; each entry holds a digest of the one before, so that a change shows",
  "record class": "kind of record with a budget of its own, such as visits or laboratory values",
  "band": "95 % confidence interval of the mean over the repeats of a run",
  "disagreement": FIGURES.consensus[2],
  "regret": FIGURES.regret[2],
  "lag": "rounds that a peer is behind those it hears",
};

/** Return a list of words with explanations, closed until it is opened. */
export const glossary = (...names) => h("details", { class: "words" },
  h("summary", {}, "The words on this page"),
  h("dl", { class: "terms" }, names.map((name) => [h("dt", {}, name), h("dd", {}, TERMS[name] ?? LINKS[name])])));

/** Return the title of a curve or figure. */
export const title = (name, score) =>
  (name === "score" && score ? score.replaceAll("_", " ").replace(/^./, (first) => first.toUpperCase()) : FIGURES[name]?.[0] ?? name);
