//! The three rules of `deadline`, slow and obvious: lists, searched from end to end. They are
//! written from a description of the kernels' behaviour, not from the core; where the two differ,
//! one is wrong.

use std::collections::VecDeque;

use foreread_core::sched::{Class, Op};

/// A queued request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Item {
    pub(crate) names: Vec<usize>,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) op: Op,
    pub(crate) class: Class,
    pub(crate) arrival_ms: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) rule: &'static str,
    pub(crate) read_expire: u64,
    pub(crate) write_expire: u64,
    pub(crate) writes_starved: i32,
    pub(crate) fifo_batch: u32,
    pub(crate) front_merges: bool,
    pub(crate) seek_cost: u32,
    pub(crate) quirks: bool,
    pub(crate) prio_aging_expire: u64,
    pub(crate) async_depth: usize,
    pub(crate) reads_in_flight: usize,
    pub(crate) writes_in_flight: usize,
    pub(crate) warm: bool,
}

#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) settings: Settings,
    max: u64,
    line: VecDeque<Item>,
    /// By age.
    fifo: Vec<Item>,
    /// Rule 2002: the starts of the requests of each direction, in the order of the sweep.
    sweeps: [Vec<u64>; 2],
    moved: VecDeque<Item>,
    pub(crate) flying: Vec<Item>,
    head: u64,
    starved: u32,
    batching: u32,
    /// Rule 4.x: the start of the request above the last one, and its direction.
    next: Option<(u64, Op)>,
    /// Rule mq.
    last_dir: Option<Op>,
    last: [[Option<u64>; 2]; 3],
}

const CLASSES: [Class; 3] = [Class::RealTime, Class::BestEffort, Class::Idle];

impl Model {
    pub(crate) fn new(settings: Settings, max: u64) -> Self {
        let is_cold = settings.quirks && !settings.warm;
        Self {
            last_dir: is_cold.then_some(Op::Write),
            last: [[settings.quirks.then_some(0); 2]; 3],
            settings,
            max,
            line: VecDeque::new(),
            fifo: Vec::new(),
            sweeps: [Vec::new(), Vec::new()],
            moved: VecDeque::new(),
            flying: Vec::new(),
            head: 0,
            starved: 0,
            batching: 0,
            next: None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.line.is_empty() && self.fifo.is_empty() && self.moved.is_empty()
    }

    /// Returns the queued requests, whose places are in use.
    pub(crate) fn queued(&self) -> impl Iterator<Item = &Item> {
        self.line.iter().chain(&self.fifo).chain(&self.moved)
    }

    pub(crate) fn add(&mut self, item: Item) {
        match self.merge(item) {
            None => self.admit(),
            Some(item) if item.op == Op::Write && (!self.line.is_empty() || self.is_full()) => {
                self.line.push_back(item);
            }
            Some(item) => self.insert(item),
        }
    }

    pub(crate) fn complete(&mut self, index: usize) -> Item {
        let item = self.flying.remove(index);
        self.admit();
        item
    }

    pub(crate) fn changed(&mut self) {
        self.admit();
    }

    pub(crate) fn take(&mut self, now_ms: u64) -> Option<Item> {
        let item = self.choose(now_ms)?;
        self.head = item.end;
        self.flying.push(item.clone());
        Some(item)
    }

    fn choose(&mut self, now_ms: u64) -> Option<Item> {
        if let Some(index) = self.moved.iter().position(|item| self.is_open(item.op)) {
            return self.moved.remove(index);
        }
        match self.settings.rule {
            "2002" => {
                let blocked = self.moved.len();
                self.move_batch(now_ms)?;
                self.moved.remove(blocked)
            }
            "4.x" => self.take_4(now_ms),
            _ => self.take_mq(now_ms),
        }
    }

    // --- Queueing

    fn is_full(&self) -> bool {
        let all = self.fifo.iter().chain(&self.moved).chain(&self.flying);
        let writes = all.filter(|item| item.op == Op::Write).count();
        self.settings.async_depth > 0 && writes >= self.settings.async_depth
    }

    fn admit(&mut self) {
        while !self.is_full() && !self.line.is_empty() {
            let item = self.line.pop_front().unwrap();
            if let Some(item) = self.merge(item) {
                self.insert(item);
            }
        }
    }

    fn may_join(&self, first: &Item, second: &Item) -> bool {
        first.end == second.start
            && first.op == second.op
            && first.class == second.class
            && second.end - first.start <= self.max
    }

    fn merge(&mut self, item: Item) -> Option<Item> {
        if let Some(index) = self.fifo.iter().position(|queued| self.may_join(queued, &item)) {
            self.fifo[index].end = item.end;
            self.fifo[index].names.extend(item.names);
            let grown = self.fifo[index].clone();
            let above = self.fifo.iter().position(|queued| self.may_join(&grown, queued));
            if let Some(above) = above {
                self.coalesce(index, above);
            }
            return None;
        }
        let front = self.fifo.iter().position(|queued| self.may_join(&item, queued));
        match front {
            Some(index) if self.settings.front_merges => {
                let queued = &mut self.fifo[index];
                for start in self.sweeps.iter_mut().flatten().filter(|s| **s == queued.start) {
                    *start = item.start;
                }
                if self.next == Some((queued.start, queued.op)) {
                    self.next = Some((item.start, queued.op));
                }
                queued.start = item.start;
                queued.names = [item.names, queued.names.clone()].concat();
                None
            }
            _ => Some(item),
        }
    }

    fn coalesce(&mut self, index: usize, above: usize) {
        let gone = self.fifo[above].clone();
        let survivor = &mut self.fifo[index];
        survivor.end = gone.end;
        survivor.names.extend(gone.names);
        let takes_place = gone.arrival_ms < survivor.arrival_ms;
        if takes_place {
            survivor.arrival_ms = gone.arrival_ms;
            self.fifo.swap(index, above);
        }
        self.fifo.remove(if takes_place { index } else { above });
        self.sweeps.iter_mut().for_each(|sweep| sweep.retain(|start| *start != gone.start));
        if self.next == Some((gone.start, gone.op)) {
            self.next = self.above(gone.start, gone.op);
        }
    }

    fn insert(&mut self, item: Item) {
        let head = self.moved.back().map_or(self.head, |item| item.end);
        let sweep = &mut self.sweeps[item.op as usize];
        let x = item.start;
        let fits = |pair: &[u64]| {
            let (a, b) = (pair[0], pair[1]);
            if a < b { a < x && x < b } else { x > a || x < b }
        };
        let between = sweep.windows(2).rposition(fits);
        let is_first = sweep.first().is_some_and(|first| item.end <= *first && x >= head);
        let place = match between {
            Some(place) => place + 1,
            None if is_first => 0,
            None => sweep.len(),
        };
        sweep.insert(place, x);
        self.fifo.push(item);
    }

    // --- Choosing

    fn is_open(&self, op: Op) -> bool {
        let limit = match op {
            Op::Read => self.settings.reads_in_flight,
            Op::Write => self.settings.writes_in_flight,
        };
        limit == 0 || self.flying.iter().filter(|item| item.op == op).count() < limit
    }

    fn waits(&self, op: Op, class: Option<Class>) -> bool {
        self.is_open(op) && self.oldest(op, class).is_some()
    }

    fn oldest(&self, op: Op, class: Option<Class>) -> Option<&Item> {
        let mut all = self.fifo.iter();
        all.find(|item| item.op == op && class.is_none_or(|class| item.class == class))
    }

    fn has_expired(&self, item: &Item, now_ms: u64) -> bool {
        let expire = match item.op {
            Op::Read => self.settings.read_expire,
            Op::Write => self.settings.write_expire,
        };
        now_ms >= item.arrival_ms + expire
    }

    fn above(&self, start: u64, op: Op) -> Option<(u64, Op)> {
        let same = self.fifo.iter().filter(|item| item.op == op && item.start > start);
        same.map(|item| (item.start, op)).min_by_key(|(start, _)| *start)
    }

    /// Returns the direction of a new batch.
    fn direction(&mut self, class: Option<Class>) -> Option<Op> {
        let (reads, writes) = (self.waits(Op::Read, class), self.waits(Op::Write, class));
        let k = self.settings.writes_starved;
        let (favoured, other, favoured_waits, other_waits) = if k < 0 {
            (Op::Write, Op::Read, writes, reads)
        } else {
            (Op::Read, Op::Write, reads, writes)
        };
        if favoured_waits {
            if !other_waits {
                return Some(favoured);
            }
            self.starved += 1;
            if self.starved <= k.unsigned_abs() {
                return Some(favoured);
            }
        } else if !other_waits {
            return None;
        }
        self.starved = 0;
        Some(other)
    }

    fn remove(&mut self, start: u64) -> Item {
        let index = self.fifo.iter().position(|item| item.start == start).unwrap();
        self.sweeps.iter_mut().for_each(|sweep| sweep.retain(|each| *each != start));
        self.fifo.remove(index)
    }

    fn move_batch(&mut self, now_ms: u64) -> Option<()> {
        let op = self.direction(None)?;
        let oldest = self.oldest(op, None).unwrap();
        let is_late = op == Op::Read && now_ms > oldest.arrival_ms + self.settings.read_expire;
        let sweep = self.sweeps[op as usize].clone();
        let first = if is_late { oldest.start } else { sweep[0] };
        let mut end = self.moved.back().map_or(self.head, |item| item.end);
        let mut budget = i64::from(self.settings.fifo_batch);
        for start in sweep.into_iter().skip_while(|start| *start != first) {
            let item = self.remove(start);
            budget -= if start == end { 1 } else { i64::from(self.settings.seek_cost) };
            end = item.end;
            self.moved.push_back(item);
            if budget <= 0 {
                break;
            }
        }
        Some(())
    }

    fn take_4(&mut self, now_ms: u64) -> Option<Item> {
        let next = self.next.filter(|(_, op)| self.is_open(*op));
        let start = match next {
            Some((start, _)) if self.batching < self.settings.fifo_batch => start,
            _ => {
                let op = self.direction(None)?;
                self.batching = 0;
                let oldest = self.oldest(op, None).unwrap();
                let next = next.filter(|(_, next)| *next == op);
                match next {
                    Some((start, _)) if !self.has_expired(oldest, now_ms) => start,
                    _ => oldest.start,
                }
            }
        };
        self.batching += 1;
        let item = self.remove(start);
        self.next = self.above(start, item.op);
        Some(item)
    }

    fn take_mq(&mut self, now_ms: u64) -> Option<Item> {
        let is_busy = |class| self.fifo.iter().chain(&self.flying).any(|item| item.class == class);
        let busy = CLASSES.map(is_busy);
        if busy.iter().filter(|is_busy| **is_busy).count() >= 2 {
            for class in [Class::BestEffort, Class::Idle] {
                let before = (self.last_dir, self.batching, self.starved);
                let aged = self.of_class(class, now_ms, Some(self.settings.prio_aging_expire));
                if aged.is_some() {
                    return aged;
                }
                if !self.settings.quirks {
                    (self.last_dir, self.batching, self.starved) = before;
                }
            }
        }
        for (class, is_busy) in CLASSES.into_iter().zip(busy) {
            let item = self.of_class(class, now_ms, None);
            if item.is_some() || is_busy {
                return item;
            }
        }
        None
    }

    fn of_class(&mut self, class: Class, now_ms: u64, least_age: Option<u64>) -> Option<Item> {
        let next = |model: &Self, op: Op| {
            let from = model.last[class as usize][op as usize].filter(|_| model.is_open(op))?;
            let same = model.fifo.iter().filter(|item| item.op == op && item.class == class);
            same.filter(|item| item.start >= from).map(|item| item.start).min()
        };
        let in_batch = self.last_dir.and_then(|op| next(self, op));
        let start = match in_batch {
            Some(start) if self.batching < self.settings.fifo_batch => start,
            _ => {
                let op = self.direction(Some(class))?;
                let oldest = self.oldest(op, Some(class)).unwrap();
                let start = match next(self, op) {
                    Some(start) if !self.has_expired(oldest, now_ms) => start,
                    _ => oldest.start,
                };
                self.last_dir = Some(op);
                self.batching = 0;
                start
            }
        };
        let item = self.fifo.iter().find(|item| item.start == start).unwrap();
        if least_age.is_some_and(|age| item.arrival_ms + age > now_ms) {
            return None;
        }
        self.batching += 1;
        let item = self.remove(start);
        let last = &mut self.last[class as usize];
        last[item.op as usize] = Some(start);
        if !self.settings.quirks {
            last[1 - item.op as usize] = None;
        }
        Some(item)
    }
}
