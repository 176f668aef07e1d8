package daemons

import (
	"container/heap"
	"time"
)

// A queue holds jobs ordered by due time, and by arrival for equal due times. A job is in at most one queue.
type queue struct {
	jobs    []*job
	arrived uint64
}

func (q *queue) push(j *job, due time.Time) {
	q.arrived++
	j.due, j.arrival, j.queue = due, q.arrived, q
	heap.Push((*queueHeap)(q), j)
}

// dequeue removes a job from its queue, if any.
func (j *job) dequeue() {
	if j.queue != nil {
		heap.Remove((*queueHeap)(j.queue), j.index)
	}
}

func (q *queue) head() *job {
	if len(q.jobs) == 0 {
		return nil
	}
	return q.jobs[0]
}

// A queueHeap implements heap.Interface, so that queue doesn't need to have its methods.
type queueHeap queue

func (q *queueHeap) Len() int { return len(q.jobs) }

func (q *queueHeap) Less(a, b int) bool {
	if order := q.jobs[a].due.Compare(q.jobs[b].due); order != 0 {
		return order < 0
	}
	return q.jobs[a].arrival < q.jobs[b].arrival
}

func (q *queueHeap) Swap(a, b int) {
	q.jobs[a], q.jobs[b] = q.jobs[b], q.jobs[a]
	q.jobs[a].index, q.jobs[b].index = a, b
}

func (q *queueHeap) Push(x any) {
	j := x.(*job)
	j.index = len(q.jobs)
	q.jobs = append(q.jobs, j)
}

func (q *queueHeap) Pop() any {
	last := len(q.jobs) - 1
	j := q.jobs[last]
	q.jobs[last] = nil
	q.jobs = q.jobs[:last]
	j.queue = nil
	return j
}
