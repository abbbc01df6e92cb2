//! A few hundred seeds keep every promise, and a seed is always the same run.

use eddy_world::swarm::{self, Shape};

#[test]
fn random_instances_keep_every_promise() {
    for seed in 0..400 {
        let ran = swarm::run(seed, Shape::Flat, None);
        assert_eq!(ran.finding, None, "seed {seed}");
    }
}

#[test]
fn a_seed_is_always_the_same_run() {
    for seed in 0..40 {
        assert_eq!(
            swarm::run(seed, Shape::Flat, None),
            swarm::run(seed, Shape::Flat, None),
            "seed {seed}"
        );
    }
}

#[test]
fn random_trees_keep_every_promise() {
    for seed in 0..400 {
        let ran = swarm::run(seed, Shape::Trees, None);
        assert_eq!(ran.finding, None, "seed {seed}");
    }
}

#[test]
fn a_seed_of_trees_is_always_the_same_run() {
    for seed in 0..40 {
        let ran = swarm::run(seed, Shape::Trees, None);
        assert_eq!(swarm::run(seed, Shape::Trees, None), ran, "seed {seed}");
    }
}
