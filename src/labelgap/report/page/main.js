// Put it all up.

function showNavigation() {
  for (const section of document.querySelectorAll("main > section:not([hidden])")) {
    byId("nav").append(make("li", {}, make("a", { href: `#${section.id}`, text: section.dataset.title })));
  }
}

showSummary();
showData();
showFit();
showCalibration();
if (figures.kind === "decisions") {
  showThreshold();
  showCompare();
  showRanking();
  showMetrics();
  showLabels(decisionColumns(), `How each ${words.label} fares at the θ that the slider stands on${details ? `; choose one to see ${details.kind === "features" ? "what speaks for and against it" : "what is most like it"}` : ""}. ` +
    `AUC and AP (average precision) judge the order of the scores, whatever θ is${sayMeanRanks()}. ` +
    `“${NO_VALUE}” stands for 0/0: no decided yes (precision), no true yes (recall), neither (F1), or one class only (AUC and AP). A macro average counts such a ${words.label} with the metric’s own value of 0/0, and leaves out one without observed entries.`);
  showWrongRows();
  showDoubtful();
} else {
  showLabels(regressionColumns(), `How well each ${words.label} is predicted${details ? "; choose one to see its strongest features" : ""}.`);
}
showOrigin();
showNavigation();
showTheme();
