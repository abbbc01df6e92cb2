//! `need` of eddy-fuzz under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| eddy_fuzz::run("need", data));
