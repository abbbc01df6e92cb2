//! What this node has, and which processors the cores of a grant are.
//!
//! Called once when a rank starts ([`discover`]) and for each task start
//! ([`Topology::binding`]). A task is bound by spawn, one that goes on elsewhere by [`bind`].
//!
//! **A core id** is the n-th physical core of the node, counted from 0 in order
//! of its lowest processor number over the processors that are online; all its
//! hardware threads belong to it. Without SMT a core is a processor. The ids
//! are those of the machine, not of the affinity mask, so that an instance
//! inside a grant of cores 2-3 also calls them 2 and 3. What the mask takes
//! away is only not reported.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use eddy_wire::resource_set::{Socket, Sockets};

/// More processors than any node has: the bound when lists are read.
const CPUS_MAX: u32 = 8192;

/// A set of processors as the kernel numbers them.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct CpuSet {
    words: Vec<u64>,
}

impl CpuSet {
    /// The set in the form sched_setaffinity(2) takes.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Adds a processor; numbers beyond 8191 exist nowhere and are left out.
    pub fn insert(&mut self, cpu: u32) {
        if cpu >= CPUS_MAX {
            return;
        }
        let word = (cpu / 64) as usize;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (cpu % 64);
    }

    /// Whether the processor is in it.
    pub fn contains(&self, cpu: u32) -> bool {
        self.words
            .get((cpu / 64) as usize)
            .is_some_and(|word| word & (1 << (cpu % 64)) != 0)
    }

    /// The processors in rising order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.words.len() as u32 * 64).filter(|cpu| self.contains(*cpu))
    }

    /// The processors of both.
    pub fn union(&self, other: &CpuSet) -> CpuSet {
        self.iter().chain(other.iter()).collect()
    }

    /// Whether there is none in it.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Reads a list of the kernel, such as `0-3,8`. `None` if it is not one.
    pub fn parse(list: &str) -> Option<CpuSet> {
        let mut set = CpuSet::default();
        for range in list.trim().split(',').filter(|range| !range.is_empty()) {
            let (low, high) = range.split_once('-').unwrap_or((range, range));
            let (low, high): (u32, u32) = (low.parse().ok()?, high.parse().ok()?);
            if low > high || high >= CPUS_MAX {
                return None;
            }
            (low..=high).for_each(|cpu| set.insert(cpu));
        }
        Some(set)
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> CpuSet {
        let mut set = CpuSet::default();
        cpus.into_iter().for_each(|cpu| set.insert(cpu));
        set
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut comma = "";
        while let Some(low) = cpus.next() {
            let mut high = low;
            while cpus.next_if_eq(&(high + 1)).is_some() {
                high += 1;
            }
            write!(f, "{comma}{low}")?;
            if high > low {
                write!(f, "-{high}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuSet({self})")
    }
}

/// What a task is to be bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Binding {
    /// All its cores exist: these processors.
    Cpus(CpuSet),
    /// Some cores are declared beyond what the node has, or lie outside the
    /// shell's own mask. Binding to the rest would squeeze the task, so it is
    /// not bound at all.
    Unbound {
        /// Core ids without a processor.
        missing: Vec<u32>,
    },
}

/// The physical cores of the node: for each its processors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    cores: Vec<CpuSet>,
    /// The socket of each core, by the number the kernel gives it.
    packages: Vec<Option<u32>>,
    allowed: CpuSet,
}

impl Topology {
    /// Reads the node's topology below `/sys` and this process's own mask.
    pub fn read() -> io::Result<Topology> {
        Topology::read_at(Path::new("/sys/devices/system/cpu"), own_mask()?)
    }

    /// The same from another directory and mask.
    pub fn read_at(cpu_directory: &Path, allowed: CpuSet) -> io::Result<Topology> {
        let path = cpu_directory.join("online");
        let online = CpuSet::parse(&fs::read_to_string(&path)?).ok_or_else(|| {
            let name = path.display();
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{name} is no list of processors"),
            )
        })?;
        let mut cores: Vec<CpuSet> = Vec::new();
        let mut packages = Vec::new();
        let mut counted = CpuSet::default();
        for cpu in online.iter() {
            if counted.contains(cpu) {
                continue;
            }
            let threads = threads_of(cpu_directory, cpu, &online);
            threads.iter().for_each(|thread| counted.insert(thread));
            cores.push(threads);
            packages.push(package_of(cpu_directory, cpu));
        }
        Ok(Topology {
            cores,
            packages,
            allowed,
        })
    }

    /// Cores in the order of their sockets: those that lie in one are together, whatever their numbers.
    pub fn by_socket(&self, mut cores: Vec<u32>) -> Vec<u32> {
        cores.sort_by_key(|core| (self.packages.get(*core as usize).copied().flatten(), *core));
        cores
    }

    /// The sockets of the node, of all its cores, and which of these devices lie in them: none where the kernel does
    /// not say, or there is one.
    fn sockets(&self, gpus: &BTreeMap<u32, CpuSet>) -> Sockets {
        let mut by_package: BTreeMap<u32, Socket> = BTreeMap::new();
        for (core, package) in (0u32..).zip(&self.packages) {
            match package {
                Some(package) => by_package.entry(*package).or_default().cores.insert(core),
                None => return Sockets::default(),
            }
        }
        let cpus = |socket: &Socket| -> CpuSet {
            let cores = socket.cores.iter().map(|core| &self.cores[core as usize]);
            cores.flat_map(CpuSet::iter).collect()
        };
        for socket in by_package.values_mut() {
            let cpus = cpus(socket);
            // What is as near to another socket lies in none.
            let near =
                |near: &CpuSet| !near.is_empty() && near.iter().all(|cpu| cpus.contains(cpu));
            let gpus = gpus.iter().filter(|(_, cpus)| near(cpus));
            socket.gpus = gpus.map(|(gpu, _)| *gpu).collect();
        }
        match by_package.len() {
            0 | 1 => Sockets::default(),
            _ => Sockets::new(by_package.into_values().collect()).unwrap_or_default(),
        }
    }

    /// Ids of the cores this process may use, rising. A core counts if at least
    /// one of its hardware threads is in the mask.
    pub fn cores(&self) -> Vec<u32> {
        (0..self.cores.len() as u32)
            .filter(|core| !self.processors(*core).is_empty())
            .collect()
    }

    /// What a task that holds these cores is bound to.
    pub fn binding(&self, cores: &[u32]) -> Binding {
        let missing: Vec<u32> = cores
            .iter()
            .copied()
            .filter(|core| self.processors(*core).is_empty())
            .collect();
        if !missing.is_empty() || cores.is_empty() {
            return Binding::Unbound { missing };
        }
        Binding::Cpus(
            cores
                .iter()
                .flat_map(|core| self.processors(*core))
                .collect(),
        )
    }

    /// The processors of a core that the mask admits.
    fn processors(&self, core: u32) -> Vec<u32> {
        let threads = self.cores.get(core as usize);
        let threads = threads.into_iter().flat_map(CpuSet::iter);
        threads.filter(|cpu| self.allowed.contains(*cpu)).collect()
    }
}

/// The hardware threads of the core of a processor; itself where the kernel
/// does not say (a virtual machine, an old kernel).
fn threads_of(cpu_directory: &Path, cpu: u32, online: &CpuSet) -> CpuSet {
    let topology = cpu_directory.join(format!("cpu{cpu}/topology"));
    // core_cpus_list since Linux 5.3, before that the second name.
    let names = ["core_cpus_list", "thread_siblings_list"];
    let listed = names
        .iter()
        .find_map(|name| fs::read_to_string(topology.join(name)).ok());
    let mut threads: CpuSet = listed
        .and_then(|list| CpuSet::parse(&list))
        .unwrap_or_default()
        .iter()
        .filter(|thread| online.contains(*thread))
        .collect();
    threads.insert(cpu);
    threads
}

/// The socket of a processor, if the kernel says.
fn package_of(cpu_directory: &Path, cpu: u32) -> Option<u32> {
    let path = cpu_directory.join(format!("cpu{cpu}/topology/physical_package_id"));
    // It is -1 where nothing is known.
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Binds a thread of any process to these processors, those that rustix can name (the first 1,024).
///
/// # Errors
/// Those of sched_setaffinity(2).
pub fn bind(thread: i32, cpus: &CpuSet) -> io::Result<()> {
    let mut mask = rustix::thread::CpuSet::new();
    let nameable = |cpu: &usize| *cpu < rustix::thread::CpuSet::MAX_CPU;
    let all = cpus.iter().map(|cpu| cpu as usize);
    all.filter(nameable).for_each(|cpu| mask.set(cpu));
    Ok(rustix::thread::sched_setaffinity(
        rustix::process::Pid::from_raw(thread),
        &mask,
    )?)
}

/// The processors this thread may run on.
fn own_mask() -> io::Result<CpuSet> {
    let mut words = vec![0u64; (CPUS_MAX / 64) as usize];
    let bytes = size_of_val(words.as_slice());
    // SAFETY: the kernel writes at most `bytes` bytes to the buffer.
    let wrote = unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, bytes, words.as_mut_ptr()) };
    if wrote < 0 {
        return Err(io::Error::last_os_error());
    }
    words.truncate((wrote as usize).div_ceil(8));
    Ok(CpuSet { words })
}

/// What was found on this node, in plain numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Name of the host (uname).
    pub host: String,
    /// Core ids, rising; see the head of this file.
    pub cores: Vec<u32>,
    /// GPU ids, rising: the numbers of `/dev/nvidiaN`, then one for each AMD
    /// render node of `/sys/class/drm`, counted on from there.
    pub gpus: Vec<u32>,
    /// Bytes of memory (MemTotal: what the kernel manages).
    pub memory: i64,
    /// Its sockets, where there are several.
    pub sockets: Sockets,
}

/// Looks at this node. Errors name the file that could not be read.
pub fn discover() -> io::Result<Node> {
    discover_at(Path::new("/"), own_mask()?)
}

/// The same below another root, for a node laid out in a directory.
pub fn discover_at(root: &Path, allowed: CpuSet) -> io::Result<Node> {
    let topology = Topology::read_at(&root.join("sys/devices/system/cpu"), allowed)?;
    let name = rustix::system::uname();
    let gpus = gpus(root);
    let near = gpus
        .iter()
        .filter_map(|(gpu, near)| Some((*gpu, near.clone()?)));
    Ok(Node {
        host: name.nodename().to_string_lossy().into_owned(),
        cores: topology.cores(),
        sockets: topology.sockets(&near.collect()),
        gpus: gpus.into_keys().collect(),
        memory: memory(&root.join("proc/meminfo"))?,
    })
}

/// GPUs by number, with the processors near each where the kernel says.
fn gpus(root: &Path) -> BTreeMap<u32, Option<CpuSet>> {
    let near =
        |device: PathBuf| CpuSet::parse(&fs::read_to_string(device.join("local_cpulist")).ok()?);
    let by_minor = nvidia(root);
    let numbers = names(&root.join("dev"));
    let numbers = numbers.filter_map(|name| name.strip_prefix("nvidia")?.parse().ok());
    let mut found: BTreeMap<u32, Option<CpuSet>> = numbers
        .filter(|id| *id < CPUS_MAX)
        .map(|id| {
            let device = by_minor.get(&id);
            let device = device.map(|name| root.join("sys/bus/pci/devices").join(name));
            (id, device.and_then(near))
        })
        .collect();
    let drm = root.join("sys/class/drm");
    let mut amd: Vec<String> = names(&drm)
        .filter(|name| name.starts_with("renderD"))
        .filter(|name| {
            let vendor = fs::read_to_string(drm.join(name).join("device/vendor"));
            vendor.is_ok_and(|vendor| vendor.trim() == "0x1002")
        })
        .collect();
    amd.sort_unstable();
    let next = found.last_key_value().map_or(0, |(id, _)| id + 1);
    found.extend((next..).zip(amd.iter().map(|name| near(drm.join(name).join("device")))));
    found
}

/// The addresses of the devices of NVIDIA's driver, by the number that they have below `/dev`.
fn nvidia(root: &Path) -> BTreeMap<u32, String> {
    let all = root.join("proc/driver/nvidia/gpus");
    let minor = |name: String| {
        let text = fs::read_to_string(all.join(&name).join("information")).ok()?;
        let minor = text
            .lines()
            .find_map(|line| line.strip_prefix("Device Minor:"));
        Some((minor?.trim().parse().ok()?, name))
    };
    names(&all).filter_map(minor).collect()
}

/// Names in a directory; none if it is not there.
fn names(directory: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

fn memory(path: &Path) -> io::Result<i64> {
    let text = fs::read_to_string(path)?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<i64>().ok());
    kib.and_then(|kib| kib.checked_mul(1024)).ok_or_else(|| {
        let name = path.display();
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{name} has no MemTotal in kB"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node of `cpus` processors, each core having the threads listed for it.
    fn node(cores: &[&str], online: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let cpu_directory = root.path().join("sys/devices/system/cpu");
        for core in cores {
            for cpu in CpuSet::parse(core).unwrap().iter() {
                let topology = cpu_directory.join(format!("cpu{cpu}/topology"));
                fs::create_dir_all(&topology).unwrap();
                fs::write(topology.join("core_cpus_list"), core).unwrap();
            }
        }
        fs::write(cpu_directory.join("online"), online).unwrap();
        fs::create_dir_all(root.path().join("proc")).unwrap();
        fs::write(
            root.path().join("proc/meminfo"),
            "MemTotal:  2048 kB\nMemFree: 1 kB\n",
        )
        .unwrap();
        root
    }

    fn topology(root: &Path, mask: &str) -> Topology {
        let mask = CpuSet::parse(mask).unwrap();
        Topology::read_at(&root.join("sys/devices/system/cpu"), mask).unwrap()
    }

    #[test]
    fn a_core_has_all_its_hardware_threads() {
        let root = node(&["0,4", "1,5", "2,6", "3,7"], "0-7\n");
        let topology = topology(root.path(), "0-7");
        assert_eq!(topology.cores(), [0, 1, 2, 3]);
        assert_eq!(
            topology.binding(&[1, 3]),
            Binding::Cpus(CpuSet::parse("1,3,5,7").unwrap())
        );
    }

    #[test]
    fn ids_stay_those_of_the_machine_inside_a_mask() {
        let root = node(&["0", "1", "2", "3"], "0-3\n");
        let topology = topology(root.path(), "2-3");
        assert_eq!(topology.cores(), [2, 3]);
        assert_eq!(
            topology.binding(&[2]),
            Binding::Cpus(CpuSet::parse("2").unwrap())
        );
        assert_eq!(
            topology.binding(&[1, 2]),
            Binding::Unbound { missing: vec![1] }
        );
    }

    #[test]
    fn sockets_are_those_the_kernel_tells_of() {
        let root = node(&["0", "1", "2", "3"], "0-3");
        let below = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let found = || {
            let node = discover_at(root.path(), CpuSet::parse("0-2").unwrap()).unwrap();
            let told = |one: &Socket| (one.cores.to_string(), one.gpus.to_string());
            let sockets = node
                .sockets
                .known()
                .map(|all| all.iter().map(told).collect());
            (node.gpus, sockets.unwrap_or_default())
        };
        // Two GPUs of one maker, one near each socket, and one of which nothing is known.
        below("dev/nvidia0", "");
        below("dev/nvidia7", "");
        below(
            "proc/driver/nvidia/gpus/0000:3b:00.0/information",
            "Model: A\nDevice Minor: \t 0\n",
        );
        below("sys/bus/pci/devices/0000:3b:00.0/local_cpulist", "1,3\n");
        below("sys/class/drm/renderD128/device/vendor", "0x1002\n");
        below("sys/class/drm/renderD128/device/local_cpulist", "0,2\n");
        assert_eq!(found(), (vec![0, 7, 8], vec![]));
        // Neighbours are of different sockets; what is not in the mask is in one all the same.
        for (cpu, package) in [(0, "0"), (1, "1"), (2, "0"), (3, "1")] {
            let file = format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id");
            below(&file, package);
        }
        let sockets = [("0,2", "8"), ("1,3", "0")].map(|(c, g)| (c.to_owned(), g.to_owned()));
        assert_eq!(found(), (vec![0, 7, 8], sockets.to_vec()));
        let order = topology(root.path(), "0-3").by_socket(vec![0, 1, 2, 3]);
        assert_eq!(order, [0, 2, 1, 3]);
    }

    #[test]
    fn a_core_that_does_not_exist_unbinds_the_task() {
        let root = node(&["0", "1"], "0-1\n");
        let topology = topology(root.path(), "0-1");
        assert_eq!(
            topology.binding(&[1, 15]),
            Binding::Unbound { missing: vec![15] }
        );
        assert_eq!(topology.binding(&[]), Binding::Unbound { missing: vec![] });
    }

    #[test]
    fn an_offline_processor_is_not_counted() {
        let root = node(&["0,2", "1,3"], "0-1,3\n");
        assert_eq!(
            topology(root.path(), "0-3").binding(&[0]),
            Binding::Cpus(CpuSet::parse("0").unwrap())
        );
    }

    #[test]
    fn gpus_are_nvidia_numbers_then_amd_render_nodes() {
        let root = node(&["0"], "0\n");
        for name in ["nvidia0", "nvidia3", "nvidiactl", "nvidia-uvm", "null"] {
            fs::create_dir_all(root.path().join("dev")).unwrap();
            fs::write(root.path().join("dev").join(name), "").unwrap();
        }
        for (name, vendor) in [("renderD128", "0x1002\n"), ("renderD129", "0x8086\n")] {
            let device = root.path().join("sys/class/drm").join(name).join("device");
            fs::create_dir_all(&device).unwrap();
            fs::write(device.join("vendor"), vendor).unwrap();
        }
        let found = discover_at(root.path(), CpuSet::parse("0").unwrap()).unwrap();
        assert_eq!(found.gpus, [0, 3, 4]);
        assert_eq!(found.memory, 2048 * 1024);
    }

    #[test]
    fn this_node_has_a_core_and_memory() {
        let found = discover().unwrap();
        assert!(!found.cores.is_empty() && found.memory > 0 && !found.host.is_empty());
        let Binding::Cpus(cpus) = Topology::read().unwrap().binding(&found.cores) else {
            panic!("cores {:?} were found and cannot be bound to", found.cores)
        };
        assert!(!cpus.is_empty());
    }

    #[test]
    fn lists_are_spelled_as_they_are_read() {
        for list in ["", "0", "0-3", "0-1,3,64-127"] {
            assert_eq!(CpuSet::parse(list).unwrap().to_string(), list);
        }
        for bad in ["a", "3-1", "0-", "-", "0-99999999", "1,,x"] {
            assert_eq!(CpuSet::parse(bad), None, "{bad}");
        }
    }
}
