package daemons

import (
	"fmt"
	"time"
)

// Jobs returns the number of daemons and timers.
func Jobs(s *Supervisor) (n int) {
	s.mu.Lock()
	defer s.unlock()
	for _, o := range s.objects {
		n += len(o.jobs)
	}
	return n
}

// NextPoint exposes Timer.nextPoint.
func NextPoint(t Timer, point, end time.Time) time.Time {
	next, err := t.nextPoint(point, end)
	if err != nil {
		panic(err)
	}
	return next
}

// Invariants checks the internal state of an idle supervisor and returns the violated invariants.
func Invariants(s *Supervisor) (wrong []string) {
	s.mu.Lock()
	defer s.unlock()
	complain := func(j *job, format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("%s/%s in phase %d: ", j.key.UID, j.key.ID, j.phase)+fmt.Sprintf(format, args...))
	}
	scheduled, awaited := 0, 0
	running, inLine, members := map[*group]int{}, map[*group]int{}, map[*group]int{}
	for uid, o := range s.objects {
		if len(o.jobs) == 0 {
			wrong = append(wrong, fmt.Sprintf("object %s has no jobs", uid))
		}
		for _, j := range o.jobs {
			if j.group != nil {
				members[j.group]++
				if s.groups[j.group.id] != j.group {
					complain(j, "its group is unknown")
				}
			}
			if j.run != nil && !j.run.abandoned {
				awaited++
				running[j.group]++
			}
			if j.queue == &s.schedule {
				scheduled++
			} else if j.queue != nil {
				inLine[j.group]++
			}
			if j.queue != nil && j.queue.jobs[j.index] != j {
				complain(j, "its index is wrong")
			}
			checkJob(s, j, complain)
		}
	}
	if scheduled != len(s.schedule.jobs) || awaited != s.awaitedRuns {
		wrong = append(wrong, fmt.Sprintf("scheduled jobs = %d, want %d; awaited runs = %d, want %d", scheduled, len(s.schedule.jobs), awaited, s.awaitedRuns))
	}
	for _, g := range s.groups {
		if g.running != running[g] || g.members != members[g] || len(g.waiting.jobs) != inLine[g] {
			wrong = append(wrong, fmt.Sprintf("group %v has a wrong count", g.id))
		}
		if g.running > g.limit || len(g.waiting.jobs) > 0 && g.running < g.limit {
			wrong = append(wrong, fmt.Sprintf("group %v: %d jobs are waiting while %d are running with a limit of %d", g.id, len(g.waiting.jobs), g.running, g.limit))
		}
	}
	return wrong
}

// checkJob checks that the run, the queue and the pause of a job match its phase.
func checkJob(s *Supervisor, j *job, complain func(*job, string, ...any)) {
	has := func(run bool, q *queue) {
		if (j.run != nil) != run || j.queue != q {
			complain(j, "run and queue do not match the phase: has run = %t, has queue = %t", j.run != nil, j.queue != nil)
		}
	}
	switch j.phase {
	case waiting:
		has(false, &s.schedule)
		if !j.due.After(time.Now()) && s.baseContext != nil {
			complain(j, "its due time %s is in the past", j.due)
		}
	case queued:
		has(false, &j.group.waiting)
	case active:
		has(true, nil)
	case stopping:
		if j.run.abandoned {
			has(true, nil)
		} else {
			has(true, &s.schedule)
		}
	case suspended, dormant, failed, ended:
		has(false, nil)
	case absent:
		complain(j, "it should be removed")
	}
	paused := s.isPaused(j)
	if (j.phase == suspended) && !paused || paused && (j.phase == waiting || j.phase == queued || j.phase == active) {
		complain(j, "the phase does not match the pause: paused = %t", paused)
	}
}
