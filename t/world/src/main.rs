//! `eddy-world swarm --seeds N [--from S] [--trees|--queues] [--break RULE]`: runs seeds on all cores.
//! `eddy-world replay SEED [--trees|--queues] [--break RULE]`: runs one and prints what happened.
//! `eddy-world play FILE`: plays a script and prints its transcript.
//! `eddy-world fair [--full] [--nodes N] [--cores N] [--long S] [--short S] [--limits PERCENT] [--small N]
//! [--half S] [--halves N] [--over TOML]`: what four accounts got of a machine at each half-life; `--full` is one of
//! 256 nodes and jobs of twelve hours, which takes an hour and more.
//! `eddy-world cheat [NAME...] [--nodes N] [--run S] [--half S] [--halves N] [--policy PRESET]
//! [--over TOML]`: what each way to get more is worth.
//!
//! The only part of the world that prints, has threads and looks at a clock.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, bail};
use eddy_wire::time::Span;
use eddy_world::broken::Rule;
use eddy_world::heads::Tally;
use eddy_world::swarm::{self, Ran, Shape};
use eddy_world::trial::cheat::{self, Cheat, Duel};
use eddy_world::trial::fair::{Mix, each_half_life};

/// How many of the first seeds are run twice.
const TWICE: u64 = 20;
/// How many findings are printed.
const SHOWN_MAX: usize = 100;

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("eddy-world: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: Vec<String>) -> anyhow::Result<ExitCode> {
    let mut words = arguments.iter().map(String::as_str);
    let verb = words.next().unwrap_or("swarm");
    if verb == "cheat" {
        return cheat(&mut words);
    }
    if verb == "fair" {
        return fair(&mut words);
    }
    if verb == "play" {
        let path = words.next().context("play needs the path of a script")?;
        return play(path);
    }
    let mut options = Options::default();
    while let Some(word) = words.next() {
        let mut number = || -> anyhow::Result<u64> {
            let text = words
                .next()
                .with_context(|| format!("{word} needs a number"))?;
            text.parse().with_context(|| format!("{word} {text}"))
        };
        match word {
            "--seeds" => options.seeds = number()?,
            "--from" => options.from = number()?,
            "--trees" => options.shape = Shape::Trees,
            "--queues" => options.shape = Shape::Queues,
            "--break" => {
                let name = words.next().context("--break needs the name of a rule")?;
                let known = Rule::ALL.iter().map(|(name, _)| *name).collect::<Vec<_>>();
                let rule = Rule::named(name);
                options.broken = Some(rule.with_context(|| format!("rules are {known:?}"))?);
            }
            seed if verb == "replay" => options.from = seed.parse().context("SEED")?,
            other => bail!("`{other}` is not an option of `{verb}`"),
        }
    }
    match verb {
        "swarm" => Ok(many(&options)),
        "replay" => Ok(one(&options)),
        other => bail!("`{other}` given; allowed are swarm, replay, play, fair and cheat"),
    }
}

/// Plays one script.
fn play(path: &str) -> anyhow::Result<ExitCode> {
    let text = std::fs::read_to_string(path).with_context(|| path.to_owned())?;
    let script = text.split("----\n").next().unwrap_or_default();
    let transcript = eddy_world::script::play(script).map_err(anyhow::Error::msg)?;
    print!("{transcript}");
    Ok(ExitCode::SUCCESS)
}

/// What four accounts got of a machine at each half-life.
fn fair<'a>(words: &mut impl Iterator<Item = &'a str>) -> anyhow::Result<ExitCode> {
    let mut mix = Mix::default();
    let mut halves = 6;
    while let Some(word) = words.next() {
        if word == "--full" {
            mix = Mix::full();
            continue;
        }
        let value = words
            .next()
            .with_context(|| format!("{word} needs a value"))?;
        let number = || {
            value
                .parse::<u32>()
                .with_context(|| format!("{word} {value}"))
        };
        let seconds = || Ok::<Span, anyhow::Error>(Span::seconds(i64::from(number()?)));
        match word {
            "--nodes" => mix.nodes = number()?,
            "--cores" => mix.cores = number()?,
            "--long" => mix.long = seconds()?,
            "--short" => mix.short = seconds()?,
            "--limits" => mix.limits = i64::from(number()?),
            "--small" => {
                let known = number().ok().filter(|of| (1..10).contains(of));
                mix.small =
                    known.with_context(|| format!("--small {value}; allowed are 1 to 9"))?;
            }
            "--half" => mix.half = seconds()?,
            "--halves" => halves = number()?,
            "--over" => mix.over = value.to_owned(),
            other => bail!("`{other}` is not an option of `fair`"),
        }
    }
    println!("half-life  wide    direct  small   nested  busy    off %   inside");
    println!("due        {}", row(&mix.due()));
    let mut at = 0;
    each_half_life(&mix, halves, |parts| {
        at += 1;
        let off = 100.0 * mix.off(&parts.of);
        let (of, busy, inside) = (row(&parts.of), parts.busy, parts.inside);
        println!("{at:<9}  {of}  {busy:.4}  {off:<6.2}  {inside}");
    })
    .map_err(anyhow::Error::msg)?;
    let (misled, grain) = (100.0 * mix.misled(), 100.0 * mix.grain());
    println!("limits that are longer than runs are worth {misled:.2} % of a due");
    println!("one wide job is {grain:.2} % of all that counts");
    Ok(ExitCode::SUCCESS)
}

/// What each way to get more is worth.
fn cheat<'a>(words: &mut impl Iterator<Item = &'a str>) -> anyhow::Result<ExitCode> {
    let mut duel = Duel::default();
    let mut named = Vec::new();
    while let Some(word) = words.next() {
        if let Some(cheat) = Cheat::ALL.iter().find(|(name, _)| *name == word) {
            named.push(*cheat);
            continue;
        }
        let value = words
            .next()
            .with_context(|| format!("{word} needs a value"))?;
        let number = || {
            value
                .parse::<i64>()
                .with_context(|| format!("{word} {value}"))
        };
        match word {
            "--nodes" => duel.nodes = u32::try_from(number()?)?,
            "--run" => duel.run = Span::seconds(number()?),
            "--half" => duel.half = Span::seconds(number()?),
            "--halves" => duel.halves = number()?,
            "--policy" => {
                let presets = ["flux", "slurm-fair-tree"];
                let known = presets.into_iter().find(|name| *name == value);
                duel.preset = known.with_context(|| format!("presets are {presets:?}"))?;
            }
            "--over" => duel.over = value.to_owned(),
            other => bail!("`{other}` is neither a cheat nor an option of `cheat`"),
        }
    }
    if named.is_empty() {
        named.extend(Cheat::ALL);
    }
    println!("cheat           honest      cheat       gain");
    for (name, cheat) in named {
        let score = cheat::duel(cheat, &duel).map_err(|why| anyhow::anyhow!("{name}: {why}"))?;
        let (honest, cheat, gain) = (score.honest, score.cheat, score.gain() * 100.0);
        println!("{name:<14}  {honest:<10.0}  {cheat:<10.0}  {gain:+.2} %");
    }
    Ok(ExitCode::SUCCESS)
}

fn row(parts: &[f64]) -> String {
    let parts: Vec<String> = parts.iter().map(|part| format!("{part:.4}")).collect();
    parts.join("  ")
}

/// What to run.
#[derive(Clone, Copy)]
struct Options {
    seeds: u64,
    from: u64,
    shape: Shape,
    broken: Option<Rule>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            seeds: 1000,
            from: 0,
            shape: Shape::Flat,
            broken: None,
        }
    }
}

fn one(options: &Options) -> ExitCode {
    let (ran, lines) = swarm::replay(options.from, options.shape, options.broken);
    for line in lines {
        println!("{line}");
    }
    println!(
        "{} steps, {} records, {} jobs",
        ran.steps, ran.records, ran.jobs
    );
    match ran.finding {
        Some(sentence) => {
            println!("seed {}: {sentence}", options.from);
            ExitCode::FAILURE
        }
        None => ExitCode::SUCCESS,
    }
}

/// Totals of a swarm.
#[derive(Default)]
struct Totals {
    steps: u64,
    records: u64,
    jobs: u64,
    instances: u64,
    /// Taken by queue instances while the root was away, and begun without it.
    taken: (u64, u64),
    heads: Tally,
    failed: Vec<(u64, String)>,
}

fn many(options: &Options) -> ExitCode {
    // Panics are findings; what they print by themselves would drown them.
    std::panic::set_hook(Box::new(|_| {}));
    let begun = Instant::now();
    let next = AtomicU64::new(options.from);
    let end = options.from + options.seeds;
    let totals = Mutex::new(Totals::default());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        break;
                    }
                    let ran = seed_once_or_twice(seed, options);
                    add(&mut totals.lock().expect("no thread panics"), seed, ran);
                }
            });
        }
    });
    let totals = totals.into_inner().expect("no thread panics");
    report(options, &totals, begun.elapsed().as_secs_f64())
}

fn seed_once_or_twice(seed: u64, options: &Options) -> Ran {
    let mut ran = swarm::run(seed, options.shape, options.broken);
    if seed < options.from + TWICE && swarm::run(seed, options.shape, options.broken) != ran {
        ran.finding = Some("two runs of it differ".to_owned());
    }
    ran
}

fn add(totals: &mut Totals, seed: u64, ran: Ran) {
    totals.steps += ran.steps;
    totals.records += ran.records;
    totals.jobs += ran.jobs;
    totals.instances += ran.instances;
    totals.taken.0 += ran.taken.0;
    totals.taken.1 += ran.taken.1;
    totals.heads.add(ran.heads);
    totals
        .failed
        .extend(ran.finding.map(|sentence| (seed, sentence)));
}

fn report(options: &Options, totals: &Totals, seconds: f64) -> ExitCode {
    let mut failed = totals.failed.clone();
    failed.sort();
    let broken = options.broken.and_then(|rule| {
        let found = Rule::ALL.iter().find(|(_, known)| *known == rule);
        found.map(|(name, _)| format!(" --break {name}"))
    });
    let broken = broken.unwrap_or_default();
    let trees = match options.shape {
        Shape::Flat => "",
        Shape::Trees => " --trees",
        Shape::Queues => " --queues",
    };
    for (seed, sentence) in failed.iter().take(SHOWN_MAX) {
        println!("seed {seed}: {sentence}");
        println!("  cargo run --release -q -p eddy-world -- replay {seed}{trees}{broken}");
    }
    println!(
        "{} instances, {} jobs, {} records, {} steps in {seconds:.1} s",
        totals.instances, totals.jobs, totals.records, totals.steps
    );
    let Tally {
        passes,
        judged,
        promises,
        losses,
        dues,
        picks,
    } = totals.heads;
    println!("{passes} passes let somebody start while another waited, {judged} were judged");
    println!(
        "{promises} promised starts were held against what was promised before, {losses} where turns change"
    );
    println!(
        "{dues} times dues were reckoned anew, {picks} times for who began and who waited alike"
    );
    let (taken, began) = totals.taken;
    if taken > 0 {
        println!("{taken} jobs were taken while the root was away, {began} began without it");
    }
    let passed = options.seeds - failed.len() as u64;
    println!("{passed} passed, {} failed", failed.len());
    ExitCode::from(u8::from(!failed.is_empty()))
}
