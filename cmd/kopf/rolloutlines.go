package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kopf-runtime/kopf-runtime/pkg/rollout"
)

// A rolloutLine is a line of the output: the rollout of a kind, or with several shards, one shard's part of it.
type rolloutLine struct {
	Kind      string        `json:"kind"`
	Shard     string        `json:"shard,omitempty"`
	Revisions string        `json:"revisions,omitempty"`
	State     string        `json:"state"` // running, waiting, halted, resuming, complete, or unreadable
	Halted    *rollout.Stop `json:"halted,omitempty"`
	Resumed   *time.Time    `json:"resumed,omitempty"`
	// The numbers are missing if there was no object.
	*rollout.Progress
}

// rolloutLines returns the lines for kinds, with an error for each value that is unreadable.
func rolloutLines(found *corev1.ConfigMap, kinds []string) ([]rolloutLine, error) {
	lines := []rolloutLine{}
	var problems []error
	for _, kind := range kinds {
		state, err := rolloutState(found, kind)
		if err != nil {
			problems = append(problems, err)
			lines = append(lines, rolloutLine{Kind: kind, State: "unreadable"})
			continue
		}
		one := rolloutLine{Kind: kind, Revisions: state.Revisions, Halted: state.Halted, Resumed: state.Resumed}
		if len(state.Progress) == 0 {
			one.State = stateOf(state, rollout.Progress{})
			lines = append(lines, one)
		}
		for _, shard := range slices.Sorted(maps.Keys(state.Progress)) {
			numbers := state.Progress[shard]
			one.Shard, one.Progress, one.State = shard, &numbers, stateOf(state, numbers)
			lines = append(lines, one)
		}
	}
	return lines, errors.Join(problems...)
}

func stateOf(state rollout.State, numbers rollout.Progress) string {
	switch {
	case state.Halted != nil && state.Resume:
		return "resuming"
	case state.Halted != nil:
		return "halted"
	case numbers.Waiting+numbers.Running == 0:
		return "complete"
	case numbers.Running == 0:
		return "waiting"
	}
	return "running"
}

// explain returns the state as text.
func (l *rolloutLine) explain() string {
	switch l.State {
	case "waiting":
		return "waiting for the time to soak or for the window"
	case "halted":
		return fmt.Sprintf("halted by %s: %s", l.Halted.By, l.Halted.Message)
	case "resuming":
		return fmt.Sprintf("halted by %s: %s; a user has asked to resume, and the operator has not answered yet", l.Halted.By, l.Halted.Message)
	}
	return l.State
}

func rolloutRows(lines []rolloutLine, now time.Time) [][]string {
	sharded := slices.ContainsFunc(lines, func(l rolloutLine) bool { return l.Shard != "" })
	row := func(kind, shard string, rest ...string) []string {
		if sharded {
			return append([]string{kind, shard}, rest...)
		}
		return append([]string{kind}, rest...)
	}
	rows := [][]string{row("KIND", "SHARD", "REVISIONS", "TOTAL", "WAITING", "RUNNING", "DONE", "FAILED", "UPDATED", "STATE")}
	for _, l := range lines {
		cells := []string{cmp.Or(l.Revisions, "-"), "-", "-", "-", "-", "-", "-", l.explain()}
		if n := l.Progress; n != nil {
			for i, number := range []int{n.Total, n.Waiting, n.Running, n.Done, n.Failed} {
				cells[i+1] = strconv.Itoa(number)
			}
			if !n.At.IsZero() {
				cells[6] = duration.HumanDuration(max(0, now.Sub(n.At))) + " ago"
			}
		}
		rows = append(rows, row(l.Kind, cmp.Or(l.Shard, "-"), cells...))
	}
	return rows
}
