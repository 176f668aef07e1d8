package main

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// Sizes in pixels.
const (
	cellWidth, cellHeight = 210, 92
	gapX, gapY            = 60, 56
	margin                = 24
	lineHeight            = 18
	letterWidth           = 7 // approximate width, rounded up
)

type point struct{ x, y int }

func (b box) left() int   { return margin + b.column*(cellWidth+gapX) }
func (b box) top() int    { return margin + b.row*(cellHeight+gapY) }
func (b box) width() int  { return b.wide*cellWidth + (b.wide-1)*gapX }
func (b box) right() int  { return b.left() + b.width() }
func (b box) bottom() int { return b.top() + cellHeight }

// spans reports whether the box is in a column.
func (b box) spans(column int) bool { return b.column <= column && column < b.column+b.wide }

// ends returns the end points of an arrow, and whether the boxes are neighbours.
func (a arrow) ends() (from, to point, ok bool) {
	f, t := a.from, a.to
	middle := f.top() + cellHeight/2
	center := max(f.left(), t.left()) + cellWidth/2
	above := f.spans(t.column) || t.spans(f.column)
	switch {
	case f.row == t.row && f.column+f.wide == t.column:
		return point{f.right(), middle}, point{t.left(), middle}, true
	case f.row == t.row && t.column+t.wide == f.column:
		return point{f.left(), middle}, point{t.right(), middle}, true
	case above && t.row == f.row+1:
		return point{center, f.bottom()}, point{center, t.top()}, true
	case above && t.row == f.row-1:
		return point{center, f.top()}, point{center, t.bottom()}, true
	}
	return point{}, point{}, false
}

const style = `<style>
  text { font-family: system-ui, sans-serif; font-size: 13px; fill: #24292f; }
  .title { font-weight: 600; font-size: 15px; }
  .label { font-style: italic; fill: #57606a; }
  rect { fill: #f6f8fa; stroke: #57606a; stroke-width: 1.2; }
  .store { stroke-dasharray: 5 4; fill: #fff8e6; }
  .paper { fill: #ffffff; stroke: none; }
  line { stroke: #57606a; stroke-width: 1.4; }
</style>
<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L10 5L0 10z" fill="#57606a"/></marker></defs>
`

// svg draws the picture.
func (p picture) svg() string {
	var out strings.Builder
	width, height := 0, 0
	for _, b := range p.boxes {
		width, height = max(width, b.right()+margin), max(height, b.bottom()+margin)
	}
	fmt.Fprintf(&out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\">\n", width, height, width, height)
	out.WriteString("<!-- Drawn by `make pictures` from the source beside it. Do not edit. -->\n" + style)
	fmt.Fprintf(&out, "<rect class=\"paper\" width=\"%d\" height=\"%d\"/>\n", width, height)
	for _, b := range p.boxes {
		b.draw(&out)
	}
	for _, a := range p.arrows {
		a.draw(&out)
	}
	out.WriteString("</svg>\n")
	return out.String()
}

func (b box) draw(out *strings.Builder) {
	class := ""
	if b.store {
		class = ` class="store"`
	}
	fmt.Fprintf(out, "<rect%s x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"8\"/>\n", class, b.left(), b.top(), b.width(), cellHeight)
	y := b.top() + (cellHeight-len(b.texts)*lineHeight)/2 + 14
	for i, line := range b.texts {
		class := ""
		if i == 0 {
			class = ` class="title"`
		}
		text(out, class, "middle", point{b.left() + b.width()/2, y + i*lineHeight}, line)
	}
}

func (a arrow) draw(out *strings.Builder) {
	from, to, _ := a.ends()
	fmt.Fprintf(out, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" marker-end=\"url(#tip)\"/>\n", from.x, from.y, to.x, to.y)
	switch {
	case a.label == "":
	case from.x == to.x:
		text(out, ` class="label"`, "start", point{from.x + 8, (from.y+to.y)/2 + 4}, a.label)
	default:
		text(out, ` class="label"`, "middle", point{(from.x + to.x) / 2, from.y - 8}, a.label)
	}
}

func text(out *strings.Builder, class, anchor string, at point, content string) {
	fmt.Fprintf(out, "<text%s x=\"%d\" y=\"%d\" text-anchor=\"%s\">", class, at.x, at.y, anchor)
	_ = xml.EscapeText(out, []byte(content)) // strings.Builder never returns an error
	out.WriteString("</text>\n")
}
