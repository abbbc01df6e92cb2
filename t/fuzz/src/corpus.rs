//! Valid examples of each target, from which the generator makes near misses.

/// The examples of the target of this name; a target without any is an error of the table.
pub fn examples(target: &str) -> &'static [&'static [u8]] {
    match target {
        "job_id" => JOB_ID,
        "idset" => IDSET,
        "hostlist" => HOSTLIST,
        "fsd" => FSD,
        "bytes" => BYTES,
        "count" => COUNT,
        "hash" => HASH,
        "event_line" => EVENT_LINE,
        "resource_set" => RESOURCE_SET,
        "jobspec" => JOBSPEC,
        "need" => NEED,
        "message" => MESSAGE,
        "event" => EVENT,
        "request" => REQUEST,
        "shell_words" => SHELL_WORDS,
        other => panic!("target `{other}` must have examples here"),
    }
}

const JOB_ID: &[&[u8]] = &[
    "ƒ2JL".as_bytes(),
    b"fjpXCZedGfVQ",
    b"0x1111",
    b"0017.e9fb.8df1.6c2e",
    b"18446744073709551615",
];

const IDSET: &[&[u8]] = &[b"", b"[0-3,7]", b"1,3,5-2147483647", b"0-9,11-19,21"];

const NEED: &[&[u8]] = &[
    b"after-success=f2JL",
    b"after-except=f8",
    b"begin-time=1763690000.500000",
    b"singleton",
    b"array-throttle=4",
];

const HOSTLIST: &[&[u8]] = &[
    b"foo1,fooi,foo[2-3]",
    b"[00-2]",
    b"foo[0-4]-eth2,a,,b",
    b"n[005,4,11-13],n[014-20]",
];

const FSD: &[&[u8]] = &[
    b"1.5h",
    b"2ms",
    b"inf",
    b"9223372036854.775807s",
    b"1e-3d",
    b"+.5m",
];

const BYTES: &[&[u8]] = &[b"4G", b"512 MiB", b"9223372036854775807", b"7E"];

const COUNT: &[&[u8]] = &[b"1-4:2:*", b"[100+]", b"2+:2:^", b"1,3-5", b"7"];

const HASH: &[&[u8]] = &[b"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"];

const EVENT_LINE: &[&[u8]] = &[
    br#"{"timestamp":1700000000.123456,"name":"submit","context":{"userid":1,"urgency":16}}"#,
    b"{\"timestamp\":1.0,\"name\":\"clean\"}\n",
];

const RESOURCE_SET: &[&[u8]] = &[
    br#"{"version":1,"execution":{"R_lite":[{"rank":"0-1","children":{"core":"0-7"}},{"rank":"2","children":{"core":"0-3","gpu":"0"}}],"nodelist":["node[0-2]"],"starttime":0,"expiration":1700000000.5,"nslots":2,"properties":{"gpu":"2"}},"scheduling":{"graph":{},"eddy":{"memory":{"0-2":1073741824}}}}"#,
    br#"{"version":1,"execution":{"R_lite":[],"nodelist":[]}}"#,
];

const JOBSPEC: &[&[u8]] = &[
    br#"{"resources":[{"type":"node","count":2,"exclusive":true,"with":[{"type":"slot","count":3,"label":"task","with":[{"type":"core","count":4},{"type":"gpu","count":1}]}]}],"tasks":[{"command":["a","b"],"slot":"task","count":{"total":5}}],"attributes":{"system":{"duration":90.5,"cwd":"/","environment":{"A":"1","B":null},"queue":"q","memory_per_node":"4G","dependencies":[{"scheme":"afterok","value":"f1"},{"scheme":"begin-time","value":"5.5"},{"scheme":"singleton","value":""}],"array":{"throttle":3},"job_set":"s","shell":{"options":{"pty":1}},"job":{"name":"n"}},"user":{"x":[1]}},"version":1}"#,
    br#"{"version":1,"resources":[{"type":"slot","count":{"min":2,"max":8,"operator":"*","operand":2},"label":"s","with":[{"type":"core","count":"1-4"},{"type":"memory","count":4,"unit":"GB"}]}],"tasks":[{"command":["a"],"slot":"s","count":{"per_resource":{"type":"core","count":1}}}],"attributes":{}}"#,
    b"version: 1\nresources:\n  - {type: slot, count: 2, label: s, with: [{type: core, count: 3}]}\ntasks:\n  - command: [hostname]\n    slot: s\n    count: {per_slot: 1}\nattributes:\n  system:\n    duration: 60\n    environment: &e {A: b}\n  user: {again: *e}\n",
];

const MESSAGE: &[&[u8]] = &[
    b"\xED\x01\x01\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x07\0\x08\0\0\0\x02\0\0\0\x03job.list{}xyz",
    b"\xED\x01\x04\0\xFF\xFF\xFF\xFF\0\0\0\0\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\0\0\0",
];

const EVENT: &[&[u8]] = &[
    b"alloc\n{\"epoch\":1,\"R\":{\"version\":1,\"execution\":{\"R_lite\":[{\"rank\":\"0\",\"children\":{\"core\":\"0-3\"}}],\"nodelist\":[\"n0\"],\"starttime\":0,\"expiration\":0}},\"shells\":{\"0\":1}}",
    b"exception\n{\"type\":\"cancel\",\"severity\":0,\"note\":\"why\",\"userid\":7}",
    b"release\n{\"ranks\":\"0-3\",\"final\":true}",
    b"urgency\n{\"urgency\":16,\"userid\":0}",
    b"put\n{\"key\":\"a.b\",\"value\":[1.5,null,{\"x\":\"y\"}]}",
    b"shell-start\n{\"ranks\":\"0\",\"epoch\":3}",
    b"preempted\n{\"by\":4,\"until\":12}",
    b"finish\n{\"status\":256}",
    b"validate\n",
];

const REQUEST: &[&[u8]] = &[
    b"{\"key\":\"01890a5d-ac96-774b-bcce-b302099a8057\",\"jobspec\":{},\"cc\":\"1-9\",\"urgency\":3}",
    b"{\"ranges\":[[1,9],[12,12]]}",
    b"{\"jobs\":{\"ranges\":[[1,9]]},\"type\":\"cancel\",\"severity\":0,\"note\":\"\",\"states\":[\"RUN\"]}",
    b"{\"id\":1,\"attempt\":2,\"offsets\":[0,12],\"follow\":true}",
    b"{\"targets\":{\"ranks\":\"0-3\"},\"reason\":\"disk\",\"force\":true}",
    b"{\"states\":[\"INACTIVE\"],\"results\":[\"FAILED\"],\"since\":1.25,\"limit\":3}",
];

const SHELL_WORDS: &[&[u8]] = &[
    b"{\"welcome\":{\"leader\":3}}",
    b"{\"signal\":{\"part\":{\"job\":1,\"attempt\":1,\"rank\":0},\"signal\":15}}",
    b"{\"hello\":{\"instance\":\"i\",\"epoch\":1,\"pid\":7,\"parts\":[[{\"job\":1,\"attempt\":1,\"rank\":0},{\"running\":{\"t\":1.5}}]]}}",
    b"{\"ended\":{\"part\":{\"job\":1,\"attempt\":1,\"rank\":0},\"ended\":{\"t\":2.0,\"status\":9,\"note\":\"n\",\"tasks\":{\"0\":9}}}}",
    b"\"exit\"",
];
