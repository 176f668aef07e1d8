package examples

import (
	"strings"

	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func posted(e *example) {
	e.start()
	archive := e.sample("archive")
	e.does("kubectl apply -f config/samples")
	want := []string{"Provisioned: created a database of 10 GiB"}
	e.Eventually(archive.events).Should(ConsistOf(want))

	e.does(`kubectl patch database archive --type=merge -p '{"spec":{"sizeGiB":20}}'`)
	want = append(want, "HandlerRecovered: grow/spec.sizeGiB has succeeded; failed attempts before that: 3")
	e.Eventually(archive.events).Should(ConsistOf(want))
	described := e.does("kubectl describe database archive")
	for _, event := range want {
		_, note, _ := strings.Cut(event, ": ")
		e.Expect(described).To(ContainSubstring(note))
	}

	e.does(`kubectl patch database archive --type=merge -p '{"spec":{"sizeGiB":5000}}'`)
	e.Eventually(archive.events).Should(ContainElement(And(
		HavePrefix("HandlerFailed: grow/spec.sizeGiB: 5000 GiB are too many and more"), HaveSuffix(": 1000 at most"),
		ContainSubstring("..."), HaveLen(len("HandlerFailed: ")+1024))))
	e.Expect(archive.events()).To(HaveLen(3))

	e.does("kubectl label database archive watched=")
	e.Eventually(e.count("Looking")).Should(BeNumerically(">", 5))
	e.does("kubectl label database archive watched-")
	e.does("kubectl get events.events.k8s.io -o custom-columns=REASON:.reason,NOTE:.note,COUNT:.series.count")
	e.Eventually(func() ([]eventsv1.Event, error) {
		var list eventsv1.EventList
		err := e.client.List(e.t.Context(), &list, client.InNamespace("default"))
		return list.Items, err
	}).Should(ContainElement(And(
		HaveField("Reason", "Looked"), HaveField("Regarding.Name", "archive"), HaveField("Series.Count", BeNumerically(">", 1)))))
	events, err := archive.events()
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(len(events)).To(BeNumerically("<", 3+e.count("Looking")()), "one for several")

	e.stop()
	e.start("-events=steps")
	archive.patch(`{"spec":{"sizeGiB":30}}`)
	e.Eventually(archive.events).Should(ContainElement("HandlerRetries: grow/spec.sizeGiB: the disks are busy"))
	e.Eventually(e.count(`Handler succeeded`, `"handler": "grow/spec.sizeGiB"`)).Should(Equal(2))
	e.stop()
	e.start("-events=off")
	events, err = archive.events()
	e.Expect(err).NotTo(HaveOccurred())
	archive.patch(`{"spec":{"sizeGiB":6000}}`)
	e.Eventually(e.count(`Handler failed permanently`)).Should(Equal(2))
	archive.delete()
	e.Expect(archive.events()).To(ConsistOf(events))
	e.silent("forbidden")
	e.told(events)
}

// told makes sure that the README shows each Event, by its reason; what a long one says is not shown.
func (e *example) told(events []string) {
	e.t.Helper()
	text := read(e.t, e.name, "README.md")
	for _, event := range events {
		reason, note, _ := strings.Cut(event, ": ")
		if !strings.Contains(text, reason) || len(note) < 100 && !strings.Contains(text, note) {
			e.t.Errorf("the README does not show %q", event)
		}
	}
}
