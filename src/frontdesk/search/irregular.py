"""Irregular forms of English words, which no stemmer recognises: "go" finds "went", "child" finds "children"."""

from __future__ import annotations

_FORMS = """
    arise arose arisen; awake awoke awoken; bear bore borne; beat beaten; become became; begin began begun; bend bent;
    bind bound; bite bit bitten; bleed bled; blow blew blown; break broke broken; breed bred; bring brought;
    build built; burn burnt; buy bought; catch caught; choose chose chosen; cling clung; come came; creep crept;
    deal dealt; dig dug; draw drew drawn; dream dreamt; drink drank drunk; drive drove driven; eat ate eaten;
    fall fell fallen; feed fed; feel felt; fight fought; flee fled; fly flew flown flies; forbid forbade forbidden;
    forget forgot forgotten; forgive forgave forgiven; freeze froze frozen; get got gotten; give gave given;
    go went gone goes; grow grew grown; hang hung; hear heard; hide hid hidden; hold held; keep kept; kneel knelt;
    know knew known; lay laid; lead led; lean leant; leap leapt; learn learnt; lend lent; lose lost; make made;
    mean meant; meet met; pay paid; ride rode ridden; ring rang rung; rise rose risen; run ran; say said; see saw seen;
    seek sought; sell sold; send sent; shake shook shaken; shine shone; shoot shot; shrink shrank shrunk;
    sing sang sung; sink sank sunk; sit sat; sleep slept; slide slid; speak spoke spoken; speed sped; spell spelt;
    spend spent; spin spun; spring sprang sprung; stand stood; steal stole stolen; stick stuck; sting stung;
    strike struck; swear swore sworn; sweep swept; swim swam swum; swing swung; take took taken; teach taught;
    tear tore torn; tell told; think thought; throw threw thrown; understand understood; wake woke woken;
    wear wore worn; weave wove woven; weep wept; win won; wind wound; write wrote written; overcome overcame;
    child children; man men; woman women; person people; foot feet; tooth teeth; goose geese; mouse mice; life lives;
    wife wives; knife knives; leaf leaves; half halves; shelf shelves; wolf wolves; thief thieves; loaf loaves;
    good better best; bad worse worst; analysis analyses; crisis crises; thesis theses; index indices; matrix matrices;
    criterion criteria; phenomenon phenomena; datum data; medium media; die dying; lie lying; tie tying
"""

ENGLISH = {form: base for base, *forms in map(str.split, _FORMS.split(";")) for form in forms}
