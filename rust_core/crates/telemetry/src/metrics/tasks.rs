//! Periodic tasks on the page of all metrics. Their scheduler reports the numbers. Must not know what the tasks do.

use super::families as of;
use orcas_metrics::Page;

/// The numbers of a task since the server started. Times are in seconds; moments since 1970.
#[derive(Clone, Debug)]
pub struct TaskNumbers {
    pub name: String,
    pub succeeded: u64,
    pub failed: u64,
    pub running: bool,
    pub interval: Option<f64>,
    /// The last success, or the start of the server.
    pub succeeded_at: f64,
    /// The duration of the last run.
    pub duration: Option<f64>,
    pub due_at: Option<f64>,
}

pub(super) fn add_tasks(page: &mut Page, tasks: &[TaskNumbers]) {
    let mut samples = page.family(&of::TASK_RUNS);
    for task in tasks {
        samples.value(&[&task.name, "ok"], task.succeeded).value(&[&task.name, "failed"], task.failed);
    }
    let mut samples = page.family(&of::TASK_RUNNING);
    tasks.iter().for_each(|task| {
        samples.value(&[&task.name], task.running);
    });
    gauge(page, &of::TASK_INTERVAL, tasks, |task| task.interval);
    gauge(page, &of::TASK_SUCCESS, tasks, |task| Some(task.succeeded_at));
    gauge(page, &of::TASK_DURATION, tasks, |task| task.duration);
    gauge(page, &of::TASK_NEXT, tasks, |task| task.due_at);
}

fn gauge(
    page: &mut Page,
    family: &'static orcas_metrics::Family,
    tasks: &[TaskNumbers],
    number: fn(&TaskNumbers) -> Option<f64>,
) {
    let mut samples = page.family(family);
    for task in tasks {
        if let Some(number) = number(task) {
            samples.value(&[&task.name], number);
        }
    }
}
