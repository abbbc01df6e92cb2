//! `eddy batch`: what of its command line and its script is not what its author may think.

use std::fs;

use eddy_cli_tests::instance::Instance;

type Tested = anyhow::Result<()>;

#[test]
fn an_option_behind_a_wrapped_command_is_refused_and_a_word_of_the_command_is_not() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let batch = |words: &[&str]| instance.run(&[&["batch", "--dry-run", "--wrap"], words].concat());
    for words in [
        &["sleep 1", "--wait"][..],
        &["hostname", "--wait"],
        &["sleep 1", "-n4"],
    ] {
        let ran = batch(words)?;
        let line = ran.refusal()?;
        let word = words[1];
        let expected = format!(
            "eddy batch: `{word}`: stands behind the command of --wrap and would be a word of it; allowed are \
             options before --wrap, and a command in quotes with all its words"
        );
        assert_eq!(line, expected);
    }
    for (words, given) in [(&[""][..], ""), (&[" \n"], " \\n"), (&["", ""], " ")] {
        let expected = format!(
            "eddy batch: --wrap: `{given}` given, which is no command; allowed is a command line"
        );
        assert_eq!(batch(words)?.refusal()?, expected);
    }
    for words in [
        &["eddy", "submit", "--wait", "true"][..],
        &["ls", "-l"],
        &["ls --wait"],
        &["sleep", "1"],
    ] {
        batch(words)?.ok()?;
    }
    Ok(())
}

#[test]
fn lines_for_other_schedulers_are_told_of_and_not_read() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let script = instance.place.join("job.sh");
    let told = |text: &str| -> anyhow::Result<String> {
        fs::write(&script, text)?;
        let ran = instance.run(&["batch", "--dry-run", &script])?;
        assert_eq!(ran.code, 0, "{}", ran.err);
        Ok(ran.err)
    };
    let options = "options stand in lines that begin with `# eddy:`\n";
    assert_eq!(
        told("#!/bin/sh\n#SBATCH -N2\n#SBATCH -t 10\ntrue\n")?,
        format!("eddy batch: job.sh: 2 lines such as `#SBATCH -N2` are not read; {options}")
    );
    assert_eq!(
        told("#!/bin/sh\n# eddy: -n1\n#PBS -q long\ntrue\n")?,
        format!("eddy batch: job.sh: the line `#PBS -q long` is not read; {options}")
    );
    assert_eq!(told("#!/bin/sh\n# flux: -n1\n# a comment\ntrue\n")?, "");
    Ok(())
}

#[test]
fn a_script_with_lines_as_on_windows_is_refused() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let script = instance.place.join("dos.sh");
    fs::write(&script, "#!/bin/sh\r\ntrue\r\n")?;
    let ran = instance.run(&["batch", "--dry-run", &script])?;
    let told = "eddy batch: dos.sh: its lines end as on Windows (CR LF); allowed are those that end with LF alone \
                (`dos2unix`, or `tr -d '\\r'`)";
    assert_eq!(ran.refusal()?, told);
    Ok(())
}
