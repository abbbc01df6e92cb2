//! What `eddy shares` says of itself.

use eddy_cli_tests::instance::Instance;
use serde_json::json;

type Tested = anyhow::Result<()>;

#[test]
fn shares_say_where_the_policy_weighs_no_use() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let told = instance.run(&["shares"])?;
    let why = "eddy shares: policy `fcfs` weighs no use (usage.weights names nothing), so USAGE is 0 for all; \
               `eddy usage` has what was used";
    assert_eq!((told.code, told.err.trim_end()), (0, why));
    let shares = instance.json(&["shares", "--json"])?;
    assert_eq!(shares["weights"], json!({}));
    instance.ok(&["config", "set", "policy.preset=flux"])?;
    assert_eq!(instance.run(&["shares"])?.err, "");
    let shares = instance.json(&["shares", "--json"])?;
    assert_eq!(shares["weights"], json!({"cores": 1.0}));
    Ok(())
}
