package daemons

import (
	"container/heap"
	"time"
)

// A queue has jobs in the order in which they are due; those that are due at the same time in the order in which
// they came. A job is in one queue at most.
type queue struct {
	jobs    []*job
	arrived uint64
}

func (q *queue) push(j *job, due time.Time) {
	q.arrived++
	j.due, j.arrival, j.queue = due, q.arrived, q
	heap.Push((*ordered)(q), j)
}

// remove takes a job out of the queue that it is in, if it is in one.
func (j *job) remove() {
	if j.queue != nil {
		heap.Remove((*ordered)(j.queue), j.index)
	}
}

func (q *queue) head() *job {
	if len(q.jobs) == 0 {
		return nil
	}
	return q.jobs[0]
}

// ordered keeps the methods that package heap asks for off the queue.
type ordered queue

func (q *ordered) Len() int { return len(q.jobs) }

func (q *ordered) Less(a, b int) bool {
	if order := q.jobs[a].due.Compare(q.jobs[b].due); order != 0 {
		return order < 0
	}
	return q.jobs[a].arrival < q.jobs[b].arrival
}

func (q *ordered) Swap(a, b int) {
	q.jobs[a], q.jobs[b] = q.jobs[b], q.jobs[a]
	q.jobs[a].index, q.jobs[b].index = a, b
}

func (q *ordered) Push(x any) {
	j := x.(*job)
	j.index = len(q.jobs)
	q.jobs = append(q.jobs, j)
}

func (q *ordered) Pop() any {
	last := len(q.jobs) - 1
	j := q.jobs[last]
	q.jobs[last] = nil
	q.jobs = q.jobs[:last]
	j.queue = nil
	return j
}
