package bench

import (
	"fmt"
	"slices"
	"strings"
)

const (
	plotCreate  = "create"
	plotRestart = "restart over"
)

// plotRow returns the name of the row with the costs of one size.
func plotRow(what string, objects int) string { return fmt.Sprintf("%s %d objects", what, objects) }

// plot returns an SVG image with the CPU time for each object by the number of objects: one line for each side, and for creations and starts.
func (r *report) plot(sizes []int) string {
	const width, height, left, bottom, top = 640, 300, 50, 250, 20
	colors, largest := map[side]string{library: "#1f6feb", minimum: "#8b949e", plain: "#bf8700"}, 0.0
	values := func(what string, size int, s side) float64 {
		i := slices.IndexFunc(r.rows, func(known *row) bool { return known.name == plotRow(what, size) })
		if i < 0 {
			return 0
		}
		return median(r.rows[i].values(s, sample.cpuPerObject))
	}
	sides := append(slices.Clone(r.opponents), library)
	for _, s := range sides {
		for _, size := range sizes {
			largest = max(largest, values(plotCreate, size, s), values(plotRestart, size, s))
		}
	}
	x := func(i int) float64 { return left + 60 + float64(i)*(width-left-220)/float64(max(1, len(sizes)-1)) }
	y := func(value float64) float64 { return bottom - value/max(largest, 1e-9)*(bottom-top) }
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&out, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	for i := range 5 {
		value := largest * float64(i) / 4
		fmt.Fprintf(&out, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#d0d7de"/><text x="4" y="%.1f">%.2f ms</text>`+"\n", left, width-130, y(value), y(value), y(value)+4, value)
	}
	for i, size := range sizes {
		fmt.Fprintf(&out, `<text x="%.1f" y="%d" text-anchor="middle">%d objects</text>`+"\n", x(i), bottom+20, size)
	}
	for _, s := range sides {
		for _, what := range []string{plotCreate, plotRestart} {
			var points []string
			for i, size := range sizes {
				points = append(points, fmt.Sprintf("%.1f,%.1f", x(i), y(values(what, size, s))))
			}
			fmt.Fprintf(&out, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(points, " "), colors[s])
			fmt.Fprintf(&out, `<text x="%.1f" y="%.1f" fill="%s">%s, %s</text>`+"\n",
				x(len(sizes)-1)+6, y(values(what, sizes[len(sizes)-1], s))+4, colors[s], strings.TrimSuffix(what, " over"), s)
		}
	}
	out.WriteString("</svg>\n")
	return out.String()
}
