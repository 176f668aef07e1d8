package main

import (
	"fmt"
	"strings"
	"time"
)

// findingRows returns the table of the findings, with a summary line.
func findingRows(findings []finding, now time.Time) [][]string {
	rows := [][]string{{"NAMESPACE", "NAME", "FINALIZER", "CAUSE", "HANDLERS", "UNKNOWN", "PROBLEMS"}}
	causes := map[string]int{}
	unfinished, unknown := 0, 0
	for _, f := range findings {
		var handlers []string
		open := false
		for _, h := range f.Handlers {
			handlers = append(handlers, h.text(now))
			open = open || h.unfinished()
		}
		causes[f.Cause]++
		if open {
			unfinished++
		}
		if len(f.Unknown) > 0 {
			unknown++
		}
		finalizer := "no"
		if f.Finalizer {
			finalizer = "yes"
		}
		cause := f.Cause
		if len(f.Changed) > 0 && cause == "update" {
			cause += " (" + strings.Join(f.Changed, ", ") + ")"
		}
		rows = append(rows, []string{f.Namespace, f.Name, finalizer, cause,
			orNone(handlers), orNone(f.Unknown), orNone(f.Problems)})
	}
	summary := fmt.Sprintf("%d objects; causes: %d create, %d update, %d delete, %d none, %d unknown; "+
		"%d objects with unfinished handlers, %d with records of unknown handlers", len(findings),
		causes["create"], causes["update"], causes["delete"], causes["none"], causes["unknown"], unfinished, unknown)
	return append(rows, nil, []string{summary})
}

func (h handlerRecord) text(now time.Time) string {
	state := h.State
	if due, err := time.Parse(time.RFC3339, h.Due); err == nil {
		if delay := due.Sub(now).Round(time.Second); delay > 0 {
			state += ", due in " + delay.String()
		} else {
			state = "due"
		}
	}
	text := fmt.Sprintf("%s: %s (%s, attempts %d)", h.ID, state, h.Cause, h.Attempts)
	if h.Message != "" {
		text += " " + h.Message
	}
	return text
}

// changeRows returns the table of the changes.
func changeRows(changes []change) [][]string {
	rows := [][]string{{"NAMESPACE", "NAME", "FINALIZER", "ANNOTATIONS", "OBJECT"}}
	for _, c := range changes {
		finalizer, result := "-", "stays"
		if c.Finalizer {
			finalizer = "removed"
		}
		switch {
		case c.Error != "":
			result = c.Error
		case c.Deletes:
			result = "is deleted"
		}
		rows = append(rows, []string{c.Namespace, c.Name, finalizer, orNone(c.Annotations), result})
	}
	return append(rows, nil, []string{fmt.Sprintf("%d objects", len(changes))})
}

func orNone(items []string) string {
	if len(items) == 0 {
		return "-"
	}
	return oneLine(strings.Join(items, "; "))
}
