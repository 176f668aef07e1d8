package main

import (
	"fmt"
	"strings"
	"time"
)

// findingRows are the table of objects, and a line that sums it up.
func findingRows(findings []finding, now time.Time) [][]string {
	rows := [][]string{{"NAMESPACE", "NAME", "HELD", "CAUSE", "HANDLERS", "UNKNOWN", "PROBLEMS"}}
	causes := map[string]int{}
	unfinished, unknown := 0, 0
	for _, f := range findings {
		var handlers []string
		open := false
		for _, h := range f.Handlers {
			handlers = append(handlers, h.text(now))
			open = open || h.State == "due" || h.State == "waiting"
		}
		causes[f.Cause]++
		if open {
			unfinished++
		}
		if len(f.Unknown) > 0 {
			unknown++
		}
		held := "no"
		if f.Held {
			held = "yes"
		}
		cause := f.Cause
		if len(f.Changed) > 0 && cause == "update" {
			cause += " (" + strings.Join(f.Changed, ", ") + ")"
		}
		rows = append(rows, []string{f.Namespace, f.Name, held, cause,
			orNone(handlers), orNone(f.Unknown), orNone(f.Problems)})
	}
	sum := fmt.Sprintf("%d objects: %d create, %d update, %d delete, %d nothing", len(findings),
		causes["create"], causes["update"], causes["delete"], causes["none"])
	if n := causes["unknown"]; n > 0 {
		sum += fmt.Sprintf(", %d unknown", n)
	}
	return append(rows, nil, []string{sum + fmt.Sprintf("; %d with unfinished handlers, %d with records of unknown ones", unfinished, unknown)})
}

func (h handlerRecord) text(now time.Time) string {
	text := h.ID + ": " + h.State
	if due, err := time.Parse(time.RFC3339, h.Due); err == nil {
		text += " for " + due.Sub(now).Round(time.Second).String()
	}
	text += fmt.Sprintf(" (%s, attempts %d)", h.Cause, h.Attempts)
	if h.Message != "" {
		text += " " + h.Message
	}
	return text
}

// changeRows are the table of what was taken off, or would be.
func changeRows(changes []change) [][]string {
	rows := [][]string{{"NAMESPACE", "NAME", "FINALIZER", "ANNOTATIONS", "THEN"}}
	for _, c := range changes {
		finalizer, then := "-", "stays"
		if c.Finalizer {
			finalizer = "off"
		}
		switch {
		case c.Error != "":
			then = c.Error
		case c.Goes:
			then = "goes: it is being deleted"
		}
		rows = append(rows, []string{c.Namespace, c.Name, finalizer, orNone(c.Annotations), then})
	}
	return append(rows, nil, []string{fmt.Sprintf("%d objects", len(changes))})
}

func orNone(items []string) string {
	if len(items) == 0 {
		return "-"
	}
	return oneLine(strings.Join(items, "; "))
}
