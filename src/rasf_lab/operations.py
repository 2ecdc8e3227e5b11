"""Three problems of operations research: inventory, maintenance, and buying electricity.

The weights of a task are prices. Prices change often, so a policy is needed for every new price list.

**Inventory** (`rasf/Inventory-v0`): the stochastic inventory problem of Puterman, Markov Decision Processes (1994),
section 3.2, with the numbers of the book. The store has room for 3 units. The demand is 0, 1 or 2 units a month, with
probabilities 1/4, 1/2 and 1/4. An order arrives at once. Holding costs are paid for the stock after the order. Demand
above the stock is lost.

    features    sold (units), ordered (units), orders (1 in a month with an order), held (units), failure (units of
                lost demand)
    weights     8, -2, -4, -1, 0 in the book

**Machines** (`rasf/Machines-v0`): the maintenance problem of Hillier and Lieberman, Introduction to Operations
Research, chapter on Markov decision processes, with the numbers of the book. A machine is as good as new, worn a
little, worn much, or inoperable, and gets worse from week to week. An overhauled machine is worn a little, and a
replaced machine is as good as new. An overhaul or a replacement costs a week of the machine's production. An inoperable
machine loses production until it is replaced. Unlike in the book, there are several machines and one crew, which works
on at most one machine a week.

    features    defects (1 or 3 thousand dollars of defective items a week), overhauls, replacements, lost weeks (of
                production), and failure (a machine becomes inoperable)
    weights     -1, -2, -4, -2, 0 in the book (thousand dollars)

**Power** (`rasf/Power-v0`): a unit of electricity is needed every hour, from a contract at a fixed price, from the spot
market, or from a battery. A second unit can be bought to charge the battery. The market has two regimes, calm and
tense, and stays in a regime for ten hours on average. The mean spot price is the same in both regimes. Its standard
deviation is five times as large in the tense regime. Spot prices are often modelled by regimes of different volatility
(R. Weron, Modeling and Forecasting Electricity Loads and Prices, 2006). The numbers here are not from that book: the
mean prices are equal so that only the spread of the prices distinguishes the regimes.

    features    contract (units bought by contract), spot (money paid on the spot market), wear (units drawn from the
                battery)
    weights     -0.9, -1, -0.05

`inventory()`, `machines()` and `power()` return the exact models, so the optimum of every weighting can be computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from rasf.arrays import Floats
from rasf.checks import number, whole
from rasf.envs.finite import FiniteEnv
from rasf.mdp import FiniteMDP

INVENTORY_FEATURES = ("sold", "ordered", "orders", "held", "failure")
MACHINES_FEATURES = ("defects", "overhauls", "replacements", "lost weeks", "failure")
POWER_FEATURES = ("contract", "spot", "wear")
INVENTORY_WEIGHTS = (8.0, -2.0, -4.0, -1.0, 0.0)
MACHINES_WEIGHTS = (-1.0, -2.0, -4.0, -2.0, 0.0)
POWER_WEIGHTS = (-0.9, -1.0, -0.05)
_DEMAND = (0.25, 0.5, 0.25)
# for each wear (row), the probabilities of the wear a week later (column) without maintenance
_WEAR = np.array([[0, 14, 1, 1], [0, 12, 2, 2], [0, 0, 8, 8], [0, 0, 0, 16]]) / 16
_DEFECTS = (0.0, 1.0, 3.0, 0.0)  # for each wear, thousand dollars of defective items a week
_NEW, _WORN, _INOPERABLE = 0, 1, 3
_LEAVE, _OVERHAUL, _REPLACE = 0, 1, 2
_SPOT = (  # prices and their probabilities in a calm and in a tense market; the mean price is 0.8 in both regimes
    {0.6: 0.25, 0.8: 0.5, 1.0: 0.25},
    {0.2: 0.3, 0.5: 0.35, 1.2: 0.25, 2.65: 0.1},
)
_STAYS = 0.9  # probability that the market keeps its regime for the next hour
_CONTRACT, _FROM_SPOT, _BATTERY, _CONTRACT_TWICE, _SPOT_TWICE = range(5)


def inventory(capacity: int = 3, demand: Sequence[float] = _DEMAND, gamma: float = 0.95) -> FiniteMDP:
    """Return the model of the inventory. A state is the stock in units, and an action is the order in units.

    An order that exceeds the free room is reduced to the free room.

    Args:
        capacity: the largest stock. Default: 3.
        demand: the probabilities of a demand of 0, 1, .. units a month. Default: (1/4, 1/2, 1/4).
        gamma: the discount factor. Default: 0.95.

    Raises:
        ValueError: `demand` does not sum to 1.
    """
    capacity = whole("capacity", capacity)
    chances = [number("demand", chance, 0.0, 1.0) for chance in demand]
    if abs(sum(chances) - 1) > 1e-9:
        raise ValueError(f"demand must be probabilities that sum to 1, got {sum(chances):g}")

    def transitions() -> Iterator[tuple[int, int, int, float, Floats]]:
        for stock, wanted in product(range(capacity + 1), repeat=2):
            ordered = min(wanted, capacity - stock)
            filled = stock + ordered
            for units, chance in enumerate(chances):
                sold = min(units, filled)
                phi = np.array([sold, ordered, float(ordered > 0), filled, units - sold])
                yield stock, wanted, filled - sold, chance, phi

    return FiniteMDP.from_transitions(transitions(), capacity + 1, capacity + 1, gamma=gamma)


def machines(count: int = 3, gamma: float = 0.95) -> FiniteMDP:
    """Return the model of the machines. A state is a number in base 4, in which each digit is the wear of a machine.

    Action 0 leaves all machines alone. Action 1 + 2 i overhauls machine i, and action 2 + 2 i replaces machine i.

    Args:
        count: the number of machines. Default: 3.
        gamma: the discount factor. Default: 0.95.
    """
    count = whole("count", count)
    states = list(product(range(len(_WEAR)), repeat=count))
    at = {state: i for i, state in enumerate(states)}
    actions = [(0, _LEAVE), *product(range(count), (_OVERHAUL, _REPLACE))]

    def transitions() -> Iterator[tuple[int, int, int, float, Floats]]:
        for (s, wear), (a, (machine, done)) in product(enumerate(states), enumerate(actions)):
            own = [_machine(one, done if i == machine else _LEAVE) for i, one in enumerate(wear)]
            for outcome in product(*own):
                chance = float(np.prod([one[1] for one in outcome]))
                phi = np.sum([one[2] for one in outcome], axis=0)
                yield s, a, at[tuple(one[0] for one in outcome)], chance, phi

    return FiniteMDP.from_transitions(transitions(), len(states), len(actions), gamma=gamma)


def _machine(wear: int, done: int) -> list[tuple[int, float, Floats]]:
    """Return the possible outcomes of a week for one machine, each as (new wear, probability, features)."""
    if done == _REPLACE:
        return [(_NEW, 1.0, np.array([0.0, 0.0, 1.0, 1.0, 0.0]))]
    if done == _OVERHAUL and wear != _INOPERABLE:  # an inoperable machine can only be replaced
        return [(_WORN, 1.0, np.array([0.0, 1.0, 0.0, 1.0, 0.0]))]
    down, defects = float(wear == _INOPERABLE), _DEFECTS[wear]
    return [
        (later, float(chance), np.array([defects, 0.0, 0.0, down, float(later == _INOPERABLE and not down)]))
        for later, chance in enumerate(_WEAR[wear])
        if chance > 0
    ]


def power(capacity: int = 3, gamma: float = 0.95) -> FiniteMDP:
    """Return the model of the electricity purchase.

    Action 0 buys one unit by contract, action 1 buys one unit on the spot market, and action 2 takes one unit from the
    battery. Action 3 buys two units by contract, action 4 buys two units on the spot market, and both store one of the
    two units. With an empty battery, action 2 buys by contract. With a full battery, actions 3 and 4 buy only one unit.

    A state is the regime of the market, the number of stored units, and the spot price paid in the last step (0 if
    none). This price has no effect on later steps. It is in the state so that phi depends only on the transition.

    Args:
        capacity: the units that the battery holds. Default: 3.
        gamma: the discount factor. Default: 0.95.
    """
    capacity = whole("capacity", capacity)
    paid = [0.0, *(price for prices in _SPOT for price in prices)]
    states = list(product(range(len(_SPOT)), range(capacity + 1), range(len(paid))))
    at = {state: i for i, state in enumerate(states)}

    def transitions() -> Iterator[tuple[int, int, int, float, Floats]]:
        for (s, (market, stored, _)), action in product(enumerate(states), range(5)):
            drawn = int(action == _BATTERY and stored > 0)
            filled = int(action in (_CONTRACT_TWICE, _SPOT_TWICE) and stored < capacity)
            at_spot = action in (_FROM_SPOT, _SPOT_TWICE)
            for later, stays in ((market, _STAYS), (1 - market, 1 - _STAYS)):
                for price, chance in _SPOT[market].items() if at_spot else [(0.0, 1.0)]:
                    units = 1 - drawn + filled
                    phi = np.array([0.0 if at_spot else units, price * units, drawn])
                    after = at[later, stored - drawn + filled, paid.index(price)]
                    yield s, action, after, stays * chance, phi

    return FiniteMDP.from_transitions(transitions(), len(states), 5, gamma=gamma)


class InventoryEnv(FiniteEnv):
    """The model of `inventory` as a Gymnasium environment. Episodes begin with an empty stock.

    Args:
        capacity, demand: see `inventory`.
    """

    def __init__(self, capacity: int = 3, demand: Sequence[float] = _DEMAND) -> None:
        super().__init__(inventory(capacity, demand), 0, INVENTORY_FEATURES, (1, -1, -1, -1, -1))


class MachinesEnv(FiniteEnv):
    """The model of `machines` as a Gymnasium environment. Episodes begin with all machines as good as new.

    Args:
        count: the number of machines. Default: 3.
    """

    def __init__(self, count: int = 3) -> None:
        super().__init__(machines(count), 0, MACHINES_FEATURES, (-1,) * len(MACHINES_FEATURES))


class PowerEnv(FiniteEnv):
    """The model of `power` as a Gymnasium environment. Episodes begin in a calm market with an empty battery.

    Args:
        capacity: the units that the battery holds. Default: 3.
    """

    def __init__(self, capacity: int = 3) -> None:
        super().__init__(power(capacity), 0, POWER_FEATURES, (-1,) * len(POWER_FEATURES))
