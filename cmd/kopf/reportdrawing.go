package main

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/kopf-runtime/kopf-runtime/pkg/explain"
)

// A drawing is an SVG picture.
type drawing struct {
	Title, Description string // for screen readers
	Width, Height      int
	Shapes             []shape
}

// A shape is a rectangle with a text in it, or only a text if it has no width. Browsers show the hint while the mouse pointer
// is over the shape. A mark has an outline.
type shape struct {
	X, Y, W, H        int
	Color, Text, Hint string
	Mark              bool
}

const (
	labelWidth, cellWidth, rowHeight, chartWidth = 300, 110, 22, 700
	labelChars, headChars                        = 42, 15
	maxHint, maxDescription                      = 300, 4000
)

func (d *drawing) label(x, y, chars int, text string) {
	d.Shapes = append(d.Shapes, shape{X: x, Y: y + rowHeight - 7, Text: shorten(text, chars), Hint: shorten(text, maxHint)})
}

func (d *drawing) box(x, y, w int, color, text, hint string) {
	d.Shapes = append(d.Shapes, shape{X: x, Y: y + 1, W: max(w, 2), H: rowHeight - 2, Color: color, Text: text, Hint: shorten(hint, maxHint)})
	d.Width = max(d.Width, x+w+10)
}

// mark draws an attempt on the bar of its handler.
func (d *drawing) mark(x, y, w int, color, hint string) {
	d.Shapes = append(d.Shapes, shape{X: x, Y: y + 6, W: max(w, 4), H: rowHeight - 12, Color: color, Hint: shorten(hint, maxHint), Mark: true})
}

// Picture draws the table and the time line.
func (r *reportData) Picture() *drawing {
	d := &drawing{Title: r.Title(), Description: r.describeObjects(), Width: labelWidth + chartWidth + 20}
	y := 10
	d.label(10, y, 200, r.Title())
	y += rowHeight
	x := 10
	for _, count := range r.Counts {
		d.box(x, y, cellWidth-4, colorOf(count.State), fmt.Sprintf("%s %s: %d", letterOf(count.State), count.State, count.Number), "")
		x += cellWidth
	}
	y += 2 * rowHeight
	for i, id := range r.Handlers {
		d.label(labelWidth+i*cellWidth, y, headChars, id)
	}
	for _, object := range r.Objects {
		y += rowHeight
		d.label(10, y, labelChars, object.Name)
		for i, id := range r.Handlers {
			if h, found := object.Handlers[id]; found {
				d.box(labelWidth+i*cellWidth, y, cellWidth-4, colorOf(h.State), letterOf(h.State), h.text(r.Time))
			}
		}
	}
	d.Height = y + 2*rowHeight
	if len(r.TimeLine) > 0 {
		r.drawTimeLine(d)
	}
	return d
}

// Chart draws only the time line.
func (r *reportData) Chart() *drawing {
	d := &drawing{Title: "Time line", Description: r.describeTimes(), Width: labelWidth + chartWidth + 20}
	r.drawTimeLine(d)
	return d
}

// describeObjects returns a description of the picture for screen readers.
func (r *reportData) describeObjects() string {
	var lines []string
	for _, object := range r.Objects {
		for _, id := range r.Handlers {
			if h, found := object.Handlers[id]; found {
				lines = append(lines, object.Name+" "+h.text(r.Time))
			}
		}
	}
	if len(r.TimeLine) > 0 {
		lines = append(lines, r.describeTimes())
	}
	return shorten(strings.Join(lines, "; "), maxDescription)
}

func (r *reportData) describeTimes() string {
	var lines []string
	for _, e := range r.TimeLine {
		lines = append(lines, e.hint())
	}
	for _, a := range r.Attempts {
		lines = append(lines, attemptText(a))
	}
	return shorten(strings.Join(lines, "; "), maxDescription)
}

func attemptText(a explain.Attempt) string {
	text := fmt.Sprintf("attempt %d of %s %s at %s", a.Number, a.Handler, a.State, a.Started.UTC().Format(time.RFC3339))
	if !a.Ended.IsZero() {
		text += " in " + a.Ended.Sub(a.Started).Round(time.Millisecond).String()
	}
	if a.Error != "" {
		text += ": " + a.Error
	}
	return text
}

// attemptsOf returns the attempts that belong to an entry of the time line.
func (r *reportData) attemptsOf(e reportTimeEntry) (all []explain.Attempt) {
	for _, a := range r.Attempts {
		if a.Handler == e.Handler && !a.Started.Before(e.Started) && !a.Started.After(e.end(r.Time)) {
			all = append(all, a)
		}
	}
	return all
}

func (r *reportData) drawTimeLine(d *drawing) {
	first, last := r.span()
	at := func(t time.Time) int {
		return labelWidth + int(float64(chartWidth)*float64(t.Sub(first))/float64(max(last.Sub(first), time.Second)))
	}
	y := d.Height
	d.label(10, y, labelChars, "Time line")
	d.label(labelWidth, y, labelChars, first.Format(time.RFC3339))
	d.label(labelWidth+chartWidth-150, y, labelChars, last.Format(time.RFC3339))
	for _, e := range r.TimeLine {
		y += rowHeight
		d.label(10, y, labelChars, e.Cause+": "+e.Handler)
		d.box(at(e.Started), y, at(e.end(r.Time))-at(e.Started), colorOf(e.State), letterOf(e.State), e.hint())
		if e.Delayed != nil && e.Stopped == nil && e.Delayed.After(e.end(r.Time)) {
			d.box(at(e.end(r.Time)), y, at(*e.Delayed)-at(e.end(r.Time)), "#dddddd", "delay", e.hint())
		}
		for _, a := range r.attemptsOf(e) {
			end := r.Time
			if !a.Ended.IsZero() {
				end = a.Ended
			}
			d.mark(at(a.Started), y, at(end)-at(a.Started), colorOf(string(a.State)), attemptText(a))
		}
	}
	d.Height = y + 2*rowHeight
}

// mermaid returns a Gantt chart of the time line, or a flow chart of the objects with their handlers.
func (r *reportData) mermaid() string {
	var b strings.Builder
	if len(r.TimeLine) > 0 {
		tags := map[string]string{"failed": "crit, ", "retrying": "crit, active, ", "succeeded": "done, ", "due": "active, ", "waiting": "active, "}
		const layout = "2006-01-02T15:04:05"
		fmt.Fprintf(&b, "gantt\n    title %s\n    dateFormat YYYY-MM-DDTHH:mm:ss\n", mermaidText(r.Title(), ":"))
		for _, e := range r.TimeLine {
			end := e.end(r.Time)
			fmt.Fprintf(&b, "    section %s %s\n", letterOf(e.State), mermaidText(e.Cause+" "+e.Handler, ""))
			fmt.Fprintf(&b, "    %s attempts %d %s :%s%s, %s\n", letterOf(e.State), e.Attempts, mermaidText(e.Message, ""), tags[e.State],
				e.Started.Format(layout), end.Add(time.Second).Format(layout))
			if e.Delayed != nil && e.Stopped == nil && e.Delayed.After(end) {
				fmt.Fprintf(&b, "    delay :%s, %s\n", end.Format(layout), e.Delayed.Add(time.Second).Format(layout))
			}
			for _, a := range r.attemptsOf(e) {
				ended := r.Time
				if !a.Ended.IsZero() {
					ended = a.Ended
				}
				fmt.Fprintf(&b, "    attempt %d %s %s :%s%s, %s\n", a.Number, mermaidText(string(a.State), ""), mermaidText(a.Error, ""), tags[string(a.State)],
					a.Started.UTC().Format(layout), ended.UTC().Add(time.Second).Format(layout))
			}
		}
		return b.String()
	}
	fmt.Fprintf(&b, "flowchart LR\n    title[\"%s\"]\n", mermaidText(r.Title(), ":"))
	for i, object := range r.Objects {
		name := mermaidText(object.Name+" "+object.Cause, ":")
		if len(object.Handlers) == 0 {
			fmt.Fprintf(&b, "    o%d[\"%s\"]\n", i, name)
			continue
		}
		fmt.Fprintf(&b, "    subgraph o%d [\"%s\"]\n", i, name)
		for j, id := range r.Handlers {
			if h, found := object.Handlers[id]; found {
				class := ""
				if letterOf(h.State) != "" {
					class = ":::" + h.State
				}
				fmt.Fprintf(&b, "        o%dh%d[\"%s\"]%s\n", i, j, mermaidText(letterOf(h.State)+" "+h.text(r.Time), ":"), class)
			}
		}
		b.WriteString("    end\n")
	}
	for _, state := range reportStates {
		fmt.Fprintf(&b, "    classDef %s fill:%s\n", state.name, state.color)
	}
	return b.String()
}

// mermaidText replaces the characters that mermaid can interpret, because mermaid has no escapes that work in all diagrams.
func mermaidText(text, allowed string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(" -./(),"+allowed, r) {
			return r
		}
		return '_'
	}, shorten(text, maxHint))
}

// shorten returns a text as one line of limited length.
func shorten(text string, chars int) string {
	runes := []rune(oneLine(text))
	if len(runes) > chars {
		return string(runes[:chars-1]) + "…"
	}
	return string(runes)
}
