package monitoring

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

const dashboardFile = "../../config/grafana/kopf.json"

type dataSource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type dashboard struct {
	UID        string  `json:"uid"`
	Title      string  `json:"title"`
	Panels     []panel `json:"panels"`
	Templating struct {
		List []struct {
			Name       string          `json:"name"`
			Type       string          `json:"type"`
			Query      json.RawMessage `json:"query"`
			Definition string          `json:"definition"`
		} `json:"list"`
	} `json:"templating"`
}

type panel struct {
	ID          int        `json:"id"`
	Type        string     `json:"type"`
	Title       string     `json:"title"`
	Description string     `json:"description"`
	DataSource  dataSource `json:"datasource"`
	GridPos     struct{ H, W, X, Y int }
	Targets     []struct {
		RefID        string     `json:"refId"`
		Expr         string     `json:"expr"`
		LegendFormat string     `json:"legendFormat"`
		DataSource   dataSource `json:"datasource"`
	} `json:"targets"`
}

func readDashboard(t testing.TB) (d dashboard, variables []string) {
	t.Helper()
	g := NewWithT(t)
	text, err := os.ReadFile(dashboardFile)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(json.NewDecoder(bytes.NewReader(text)).Decode(&d)).To(Succeed())
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
	}
	return d, variables
}

var (
	labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
	legendLabel = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)
)

func TestDashboard_VariablesExist(t *testing.T) {
	g := NewWithT(t)
	all := known(exposed(t))
	d, variables := readDashboard(t)
	g.Expect(variables).To(Equal([]string{"datasource", "namespace", "job", "kind"}))
	for _, v := range d.Templating.List[1:] {
		match := labelValues.FindStringSubmatch(v.Definition)
		g.Expect(match).NotTo(BeNil(), v.Definition)
		selector, err := substitute(match[1], variables)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(checkExpression(all, "max by ("+match[2]+") ("+selector+")")).To(Succeed(), v.Definition)
		var stored struct{ Query string }
		g.Expect(json.Unmarshal(v.Query, &stored)).To(Succeed())
		g.Expect(stored.Query).To(Equal(v.Definition))
	}
}

// Each query must use existing metrics and labels. With a value for each metric, it must have a result, with all labels of the legend.
func TestDashboard_QueriesHaveResults(t *testing.T) {
	families := exposed(t)
	all, series := known(families), history(families, 90)
	d, variables := readDashboard(t)
	queries := 0
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			queries++
			t.Run(p.Title+" "+target.RefID, func(t *testing.T) {
				g := NewWithT(t)
				expression, err := substitute(target.Expr, variables)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(checkExpression(all, expression)).To(Succeed(), target.Expr)
				result, err := query(t.Context(), series, expression, 80)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(result).NotTo(BeEmpty(), target.Expr)
				for _, match := range legendLabel.FindAllStringSubmatch(target.LegendFormat, -1) {
					for _, s := range result {
						g.Expect(s.Metric.Get(match[1])).NotTo(BeEmpty(), "{{%s}} for %s", match[1], target.Expr)
					}
				}
			})
		}
	}
	NewWithT(t).Expect(queries).To(BeNumerically(">", 40))
}

func TestDashboard_ShowsAllMetricsOfTheLibrary(t *testing.T) {
	g := NewWithT(t)
	text, err := os.ReadFile(dashboardFile)
	g.Expect(err).NotTo(HaveOccurred())
	for _, f := range exposed(t) {
		if strings.HasPrefix(f.GetName(), "kopf_") {
			g.Expect(string(text)).To(MatchRegexp(`\b`+f.GetName()+`(_bucket)?\{`), "no panel shows the metric")
		}
	}
}

func TestDashboard_PanelsAreComplete(t *testing.T) {
	g := NewWithT(t)
	d, _ := readDashboard(t)
	g.Expect(d.UID).NotTo(BeEmpty())
	source := dataSource{Type: "prometheus", UID: "${datasource}"}
	var ids []int
	occupied := map[[2]int]string{}
	for _, p := range d.Panels {
		g.Expect(ids).NotTo(ContainElement(p.ID))
		ids = append(ids, p.ID)
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				cell := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				g.Expect(cell[0]).To(BeNumerically("<", 24), p.Title)
				g.Expect(occupied).NotTo(HaveKey(cell), "%s overlaps %s", p.Title, occupied[cell])
				occupied[cell] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		g.Expect(p.Description).NotTo(BeEmpty(), p.Title)
		g.Expect(p.DataSource).To(Equal(source), p.Title)
		g.Expect(p.Targets).NotTo(BeEmpty(), p.Title)
		for _, target := range p.Targets {
			g.Expect(target.DataSource).To(Equal(source), p.Title)
		}
	}
	g.Expect(slices.Max(ids)).To(Equal(len(ids)))
}
